"""Evidence on disk: layout, records, ownership, reading, resume."""
