"""Data that survives a restart: the store and the event log."""
