"""Sending messages on to the routers of a topic, and asking for missed ones (R-C33, R-C34)."""
