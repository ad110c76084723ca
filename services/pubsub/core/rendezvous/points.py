"""Points of rendezvous: places in the space of router keys where those who know a group leave records, changing daily.

    point(day) = BLAKE3("upsycle rendezvous 1", group, day(4))
    day        = (Unix seconds + shift(group)) / 86,400, where shift is drawn from the group: not all change at once

Routers have places there, too: the first 8 bytes of their keys. The distance of two places is their exclusive or, as in
Kademlia (Maymounkov, Mazieres 2002): it is symmetric, and a point has one order of all routers, the same for everybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import NamedTuple

from router.core.wire.crypto import PublicKey, digest

POINT_BYTES = 32
PLACE_BYTES = 8
DAY_S = 86_400
OVERLAP_S = 3_600
"""Seconds before a new day in which records are left for that day, too; a clock may be wrong by as much."""

_POINT_LABEL = b"upsycle rendezvous 1"
_SHIFT_LABEL = b"upsycle rendezvous day 1"


class Contact(NamedTuple):
    """A router as these rules see it: its key, its place, and its public network (None: private, or a name)."""

    router: PublicKey
    place: int
    prefix: bytes | None


def contact_of(router: PublicKey, prefix: bytes | None) -> Contact:
    return Contact(router, place_of(router), prefix)


def place_of(key: bytes) -> int:
    """Return the place of a router's key, or of a point."""
    return int.from_bytes(key[:PLACE_BYTES], "big")


def point_of(group: PublicKey, day: int) -> bytes:
    """Return the group's point on a day, as `day_of` counts them."""
    return digest(_POINT_LABEL + group + day.to_bytes(4, "big"))


def day_of(group: PublicKey, wall_s: float) -> int:
    """Return the group's day at a Unix second."""
    shift = int.from_bytes(digest(_SHIFT_LABEL + group)[:4], "big") % DAY_S
    return int(wall_s + shift) // DAY_S


def days_to_leave(group: PublicKey, wall_s: float) -> tuple[int, ...]:
    """Return the days for which a record is left now: today, and tomorrow when that is near."""
    today, soon = day_of(group, wall_s), day_of(group, wall_s + OVERLAP_S)
    return (today,) if soon == today else (today, soon)


def nearest(place: int, among: Iterable[Contact], count: int) -> list[Contact]:
    """Return the contacts nearest to a place, the nearest first."""
    return nsmallest(count, among, key=lambda one: one.place ^ place)
