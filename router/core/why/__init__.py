"""The fate of a message, judged from the log lines about it."""
