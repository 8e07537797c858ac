"""The durable agent runtime: actions that happen once, with an outcome that may be unknown."""
