"""Which log files count and what is wrong with them: plain Python, without Spark."""
