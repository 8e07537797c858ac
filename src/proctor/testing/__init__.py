"""Shipped with proctor for tests of proctor and of plug-ins. Nothing else in src imports it."""
