"""Logs that are damaged on purpose, and the findings that an audit must report."""
