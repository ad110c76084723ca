"""The message router's decisions: which messages are accepted, to whom they are owed, and how their delivery ends."""
