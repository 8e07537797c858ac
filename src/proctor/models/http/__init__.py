"""HTTP/1.1 over asyncio and h11: a client whose cost per request does not grow, and a server."""
