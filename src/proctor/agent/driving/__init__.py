"""How a worker drives an agent run: it asks, executes, records, and recovers."""
