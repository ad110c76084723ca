"""Rigs in which several tests run their subject."""
