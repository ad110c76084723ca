"""The message router's decisions: what is taken in, to whom it is owed, and what becomes of it."""
