"""Transports: how bytes travel; one file per URL scheme."""
