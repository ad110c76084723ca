"""The event log on disk: segments, their indexes, and the search in them."""
