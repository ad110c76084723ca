"""The event log as values: events, their lines, and the segments that seal them."""
