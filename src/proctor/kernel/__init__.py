"""Floor 0: nouns and rules. Standard library only, no input or output."""
