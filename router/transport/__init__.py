"""The contract of a transport, and code that stream transports share: sockets, TLS records, certificates."""
