"""What the web side decides: bytes of HTTP in, answers out."""
