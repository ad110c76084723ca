"""What scripts do with a token: publish, read groups, and ask what became of a message."""
