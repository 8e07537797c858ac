"""Floor 2: where agents run. `contract` is what the runtime relies on; providers implement it."""
