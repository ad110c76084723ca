"""Decide which log files count and what is wrong with them, in plain Python, without Spark."""
