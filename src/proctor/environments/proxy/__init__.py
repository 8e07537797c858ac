"""The only way out of a sandbox with a network of its own: relays that run in the driver."""
