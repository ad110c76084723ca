"""The fleet's audit on Spark."""
