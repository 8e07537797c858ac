"""What an agent run is, as values and pure functions: events in, the view and decisions out."""
