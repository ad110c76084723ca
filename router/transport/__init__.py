"""What a transport is, and what the stream transports share: sockets, TLS records, certificates."""
