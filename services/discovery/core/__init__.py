"""The decisions of discovery, without sockets, clock or randomness of their own."""
