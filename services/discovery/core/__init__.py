"""The decisions of discovery, without sockets, clock or random numbers."""
