"""Points of rendezvous: `router simulate rendezvous` plays them, and no service runs them (docs/decisions.md)."""
