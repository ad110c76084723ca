"""What a node is told and what it keeps of its own: configuration, home, keys."""
