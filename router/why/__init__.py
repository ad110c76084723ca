"""`router why`: the fate of a message, asked of the running node or read in its home."""
