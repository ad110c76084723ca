"""What the pub/sub service says and decides, without clock, socket or disk."""
