"""Floor 2: models. `contract` is what harnesses and benchmarks see; adapters implement it."""
