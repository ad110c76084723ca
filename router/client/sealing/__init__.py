"""Sealing what an app says to one address: its own prekeys, those of others, and how they are asked for."""
