"""Floor 3: the evaluation runtime."""
