"""Floor 4: benchmarks. One file or folder each; found through entry points."""
