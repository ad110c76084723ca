"""The fate of a message, judged by the log lines about it."""
