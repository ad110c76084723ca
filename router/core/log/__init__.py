"""The event log as values: events, the lines that encode them, and the sealed segments that hold the lines."""
