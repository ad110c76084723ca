"""Actors as trio tasks: inbox, futures, supervision."""
