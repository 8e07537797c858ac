"""`proctor agent …`: durable agent runs, as people see them and speak to them."""
