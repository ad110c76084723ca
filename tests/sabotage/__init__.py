"""Logs that are damaged on purpose, and what an audit must say of them."""
