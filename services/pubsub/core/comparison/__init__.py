"""Comparing what two routers hold of a topic, so that each gets what it lacks (R-C35)."""
