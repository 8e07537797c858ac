"""Floor 1: keeping facts. Files now; database, journal, leases and blobs join here."""
