"""Durable steps and a kill after the effect, beside other durable runtimes."""
