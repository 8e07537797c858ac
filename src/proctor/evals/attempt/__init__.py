"""One attempt: its phases, its evaluation mode, its clean-up."""
