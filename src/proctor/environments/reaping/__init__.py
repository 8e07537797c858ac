"""What dead drivers left on this machine: found by its owner's mark, and removed."""
