"""Many named requests through one pool."""
