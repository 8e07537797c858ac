"""Floor 4: harnesses. One file or folder each; found through entry points."""
