"""The message router's decisions: what is accepted, to whom it is owed, and how its delivery ends."""
