"""The fill of the duplicate index, by holder, which limits how far ahead a message may expire (R-A12, R-C5).

The ids are on disk. Each counts for a holder: the neighbour that brought its message, all strangers together, or this
node's own apps together. Once a holder has used half of its room, its messages get ever shorter lives, so that its ids
cost no other holder any lifetime. A message refused because a share is full may come again later; only the configured
lifetime refuses for good.
"""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct, field

from router.core.neighbours.directory import STRANGERS
from router.core.wire.lifetime import expiry_s
from router.core.wire.reasons import Reason

from .limits import IndexLimits

HOLDER_BYTES = 8
APPS = b""  # the holder for this node's own apps
STRANGERS_HOLDER = STRANGERS[:HOLDER_BYTES]


class Index(Struct):
    """Counts of the ids on disk: `entries` in all, `shares` by holder except the apps, which have the rest.

    A live id is never forgotten.
    """

    limits: IndexLimits
    entries: int = 0
    shares: dict[bytes, int] = field(default_factory=dict)
    met: Container[bytes] = ()  # the holders that have, each for itself, a share as small as that of all strangers
    _shared: int = 0  # the sum of the shares

    def __post_init__(self) -> None:
        self._shared = sum(self.shares.values())

    def __repr__(self) -> str:
        return f"<index: {self.entries} of at most {self.limits.entries_max} ids, {len(self.shares)} holders but apps>"

    def add(self, holder: bytes, entries: int) -> None:
        """Add `entries` ids to a holder's count; a negative number removes them."""
        self.entries += entries
        if holder != APPS:
            left = self.shares.pop(holder, 0) + entries
            self._shared += entries
            if left:
                self.shares[holder] = left

    def held(self, holder: bytes) -> int:
        return self.shares.get(holder, 0) if holder != APPS else self.entries - self._shared

    def room(self, holder: bytes) -> int:
        """Return how many more ids of the holder are accepted now."""
        limits = self.limits
        of_strangers = limits.entries_max * limits.strangers_percent // 100
        if holder == STRANGERS_HOLDER:
            return of_strangers - self.held(holder)
        of_apps, of_neighbours = self.held(APPS), self._shared - self.held(STRANGERS_HOLDER)
        if holder == APPS:
            return limits.entries_max - of_strangers - of_neighbours - of_apps
        kept_for_apps = max(of_apps, limits.entries_max * limits.apps_percent // 100)
        free = limits.entries_max - of_strangers - kept_for_apps - of_neighbours
        percent = limits.strangers_percent if holder in self.met else limits.neighbour_percent
        return fair_room(free, self.held(holder), percent)

    def lifetime_s(self, holder: bytes) -> int:
        """Return how many seconds ahead a message of this holder may expire at most."""
        limits = self.limits
        if holder == STRANGERS_HOLDER:
            return min(limits.lifetime_s_max, limits.strangers_lifetime_s_max)
        return limits.lifetime_s_max

    def horizon_s(self, holder: bytes) -> int:
        """Return how many seconds ahead a message may expire now: less than `lifetime_s` once half the room is used."""
        room = self.room(holder)
        if room <= 0:
            return 0
        return int(self.lifetime_s(holder) * min(1.0, 2 * room / (room + self.held(holder))))

    def out_of_time(self, holder: bytes, expiry_min: int, wall_s: int) -> tuple[Reason, str] | None:
        """Return why a message is refused for its expiry, or None; the horizon is rounded up to the whole minute."""
        if expiry_s(expiry_min) <= wall_s:
            return Reason.EXPIRY_PASSED, ""
        ahead_s, horizon_s = expiry_s(expiry_min) - 60 - wall_s, self.horizon_s(holder)
        if ahead_s <= horizon_s:
            return None
        if ahead_s > (lifetime_s := self.lifetime_s(holder)):
            whose = " of a key that this node does not know" if holder == STRANGERS_HOLDER else ""
            return Reason.EXPIRY_TOO_FAR, f"a message{whose} may expire at most {lifetime_s} s ahead"
        return Reason.INDEX_FULL, f"for now a message may expire at most {horizon_s} s ahead"


def fair_room(free: int, held: int, percent: int) -> int:
    """Return how much more a holder of `held` may take of what is `free`, always leaving room for a newcomer.

    A single holder gets `percent` of all; at 50 %, n holders that take all they can get 1 / (n + 1) each (the dynamic
    thresholds of Choudhury and Hahne, 1998)."""
    return (percent * free - (100 - percent) * held) // 100
