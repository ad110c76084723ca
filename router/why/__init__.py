"""`router why`: what became of a message, asked of the running node or read in its home."""
