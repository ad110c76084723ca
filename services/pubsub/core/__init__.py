"""The messages and decisions of the pub/sub service, without clock, socket or disk."""
