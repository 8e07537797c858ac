"""What proctor costs, measured; see docs/performance.md."""
