"""One link without I/O: the table of its talk, the session that reads it, and who holds a message."""
