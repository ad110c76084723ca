"""What the stream transports share: sockets, TLS records, certificates."""
