"""Floor 8: commands. No rules; heavy imports inside the command."""
