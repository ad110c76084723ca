"""What survives: the store and the event log."""
