"""Logs that somebody spoilt on purpose, and what an audit must say of them."""
