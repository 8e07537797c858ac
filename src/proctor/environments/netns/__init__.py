"""A network namespace for a sandbox, whose policy can change while programs run in it."""
