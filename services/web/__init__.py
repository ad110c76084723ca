"""The web side: pages, scripts and links over HTTP, and what an operator and a monitoring system want to know."""

RUN = "apart"
"""A process of its own by default: strangers' requests do not belong on the router's loop."""
