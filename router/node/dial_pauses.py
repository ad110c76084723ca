"""How long a neighbour is not dialled after an attempt that failed: the back-off, shortened where it was announced that
the neighbour moves, and where an address was only skipped because it rests (R-D22)."""

from __future__ import annotations

from msgspec import Struct

from router.core.service.back_off import BackOff

FOLLOW_S_MAX = 20.0
"""The longest pause, in seconds, before a neighbour is dialled again that has announced another address than the one
that answered last: with the dial itself it is found within half a minute of being back."""
FOLLOW_FOR_S = 3600.0
"""For how long after such a neighbour was lost its pauses are so short."""
SPREAD_S = 5.0
"""Within how many seconds after its rest an address is dialled that was skipped, at random: all who lost a router at
one moment find its address resting alike."""


class _Waiting(Struct):
    """Since when a neighbour is dialled without success, and when the first of its skipped addresses may be dialled
    again, None if none was skipped. Monotonic seconds."""

    lost_s: float
    rests_until_s: float | None = None


class DialPauses:
    """The pauses of all neighbours that are dialled, one entry each until `forget`. Times are monotonic seconds."""

    def __init__(self, back_off: BackOff) -> None:
        self._back_off = back_off
        self._waiting: dict[bytes, _Waiting] = {}

    def __repr__(self) -> str:
        return f"<pauses of {len(self._waiting)} neighbours>"

    def begin(self, key: bytes, now_s: float) -> None:
        """Record that an attempt begins, in which no address was skipped yet."""
        self._waiting.setdefault(key, _Waiting(now_s)).rests_until_s = None

    def lost(self, key: bytes, now_s: float) -> None:
        """Record that a connection which counted has ended."""
        self._waiting[key] = _Waiting(now_s)

    def skipped(self, key: bytes, until_s: float) -> None:
        """Record that an address of the neighbour was not dialled, because it rests until then."""
        one = self._waiting.get(key)
        if one is not None:
            one.rests_until_s = until_s if one.rests_until_s is None else min(one.rests_until_s, until_s)

    def forget(self, key: bytes) -> None:
        self._waiting.pop(key, None)

    def pause_s(self, key: bytes, failures: int, draw: float, now_s: float, *, has_moved: bool) -> float:
        """Return the pause after this many failures in a row, at least one; `draw` is uniform in [0, 1).

        `has_moved`: the neighbour has announced another address than the one that answered last."""
        one, pauses = self._waiting.get(key), self._back_off
        if one is None:
            return pauses.pause_s(failures, draw)
        if has_moved and now_s < one.lost_s + FOLLOW_FOR_S:
            longest_s = min(FOLLOW_S_MAX, pauses.pause_s_max)
            pauses = BackOff(pause_s_min=min(pauses.pause_s_min, longest_s), pause_s_max=longest_s)
        pause_s = pauses.pause_s(failures, draw)
        if one.rests_until_s is not None:
            pause_s = min(pause_s, max(one.rests_until_s - now_s, 0.0) + draw * SPREAD_S)
        return pause_s
