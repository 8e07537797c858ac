"""Suites that every implementation of a seam must pass, ours and yours: subclass and run."""
