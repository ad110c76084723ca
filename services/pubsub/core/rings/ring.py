"""Positions on the ring: the same numbers in every topic, so that the neighbours of topics coincide (R-C32)."""

from __future__ import annotations

SPACE = 1 << 512
"""The size of the ring. A position is the key of a pub/sub service as a number, followed by its router's key, which
separates two services with one key."""


def place_of(service: bytes, router: bytes) -> int:
    """Return the position of a pub/sub service."""
    return int.from_bytes(service + router, "big")


def ahead(start: int, end: int) -> int:
    """Return the distance from `start` to `end` around the ring."""
    return (end - start) % SPACE
