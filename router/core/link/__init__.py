"""One link without I/O: the table of its protocol, the session that runs it, and the custody of messages."""
