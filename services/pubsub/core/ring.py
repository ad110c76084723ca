"""Positions on the ring: numbers, the same in every topic, so that the neighbours of topics coincide (C32)."""

from __future__ import annotations

SPACE = 1 << 512
"""A position is the key of a pub/sub service as a number; its router's key follows, which parts two of one key."""


def place_of(service: bytes, router: bytes) -> int:
    """Return the position of a pub/sub service."""
    return int.from_bytes(service + router, "big")


def ahead(start: int, end: int) -> int:
    """Return how far `end` lies after `start` around the ring."""
    return (end - start) % SPACE
