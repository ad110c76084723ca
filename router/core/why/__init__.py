"""What became of a message, from the lines that are about it."""
