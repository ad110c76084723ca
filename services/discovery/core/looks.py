"""Which configured or invited routers are dialled to learn of others from them, and when again.

Connected, each says which discovery service it has, and is asked for others. Such a link ends when nothing more is said
on it, and this is no reason to dial it again: where it was reached, an hour passes in the end, where it was not, ten
minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from router.core.wire.crypto import PublicKey

CHOSEN = ("peer", "client")
"""The standings of configured or invited routers; a client is one with rights here, which may be a core, too."""
LOOK_S, DIALLED_MAX = 60.0, 16
"""Seconds between two looks at which neighbours are not connected, and the most that are dialled at one."""
REACHED_S_MAX, UNREACHED_S_MAX = 3600.0, 600.0
"""The longest pauses between two dials of a neighbour that was reached the last time, and of one that was not."""
REMEMBERED_MAX = 4_096
"""Neighbours of which the last dial is remembered; beyond it the one dialled least lately is dialled as for the first
time."""
CALM_S = 2 * REACHED_S_MAX
"""A neighbour that was not dialled for so long, as it was connected, is dialled as for the first time."""
EARLY_S = 1.0
"""What a pause may lack when a look comes early."""


class LastDial(Struct):
    """When a neighbour was dialled last, in monotonic seconds, and how many times in a row."""

    at_s: float
    times: int


class Looks:
    """Chooses the neighbours to dial from what the router says of all of them. `begin` a look, then pass it the rows of
    each page of the router's answer."""

    def __init__(self) -> None:
        self._dials: dict[PublicKey, LastDial] = {}
        self._left = 0

    def __repr__(self) -> str:
        return f"<looks: {len(self._dials)} neighbours were dialled>"

    def begin(self) -> None:
        """Allow as many dials as one look may have."""
        self._left = DIALLED_MAX

    def due(self, peers: Iterable[Mapping[str, Any]], now_s: float, *, is_alone: bool) -> Iterator[PublicKey]:
        """Yield the neighbours to dial now: those that are away and no uplinks, which the router dials itself. The
        pause after each dial of a neighbour doubles, unless it was not reached and this node knows nobody
        (`is_alone`)."""
        for one in peers:
            if one["standing"] not in CHOSEN or one["state"] != "away" or not one["urls"] or one["uplink"]:
                continue
            key = PublicKey(bytes.fromhex(one["address"]))
            last = self._dials.get(key)
            if last is not None and now_s > last.at_s + CALM_S:
                last = None
            is_sought = is_alone and one["problem"]
            if self._left and (last is None or is_sought or now_s >= _next_s(last, one)):
                self._left -= 1
                self._note(key, LastDial(now_s, 1 if last is None else last.times + 1))
                yield key

    def _note(self, key: PublicKey, dialled: LastDial) -> None:
        self._dials.pop(key, None)
        while len(self._dials) >= REMEMBERED_MAX:
            del self._dials[next(iter(self._dials))]
        self._dials[key] = dialled


def _next_s(last: LastDial, row: Mapping[str, Any]) -> float:
    """Return when to dial again. The row has a problem if the last dial did not reach the neighbour."""
    most = UNREACHED_S_MAX if row["problem"] else REACHED_S_MAX
    return last.at_s + min(most, LOOK_S * 2.0 ** min(last.times - 1, 16)) - EARLY_S
