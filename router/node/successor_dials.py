"""Which keys that answered at a neighbour's addresses are dialled, since they may have followed the neighbour's key
(`router keys rotate-node`): a router with another key shows in its hello whom it has followed."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from router.core.wire.crypto import PublicKey

NO_SUCCESSOR_S = 600.0
"""For how long a key that answered at a neighbour's address, and has not followed it, is not dialled for it again."""
NO_SUCCESSORS_MAX = 256
TRIES_MAX = 6
"""How often a key is dialled whose hello has not come yet, as its router may just be starting again. Meanwhile that
address may rest for who expects the neighbour's key (R-D22)."""
AGAIN_S = 1.0
"""How long after its first dial such a key is dialled again; each later time after twice as long. So a router has a
minute to start, however short the pauses between two dials of a neighbour are."""


class Answerer(NamedTuple):
    """A key that answered at an address of a neighbour, in place of the neighbour's."""

    address: str
    key: PublicKey


class _Unheard(NamedTuple):
    """A key whose hello has not come: how often it has been dialled, and before when it is not dialled again."""

    one: Answerer
    tries: int
    rests_until_s: float


class SuccessorDials:
    """Decides which key is dialled in place of a neighbour's. Seconds are monotonic; `again_s`: see `AGAIN_S`."""

    def __init__(self, again_s: float = AGAIN_S) -> None:
        self._again_s = again_s
        self._unheard: dict[bytes, _Unheard] = {}  # by neighbour
        self._turned_down: dict[tuple[bytes, bytes], float] = {}  # a neighbour's key, one that is none, and until when

    def __repr__(self) -> str:
        return f"<{len(self._unheard)} keys may follow, {len(self._turned_down)} do not>"

    def may_succeed(self, neighbour: bytes, other: bytes, now_s: float) -> bool:
        """Whether a key that answered at the neighbour's address may have followed its key."""
        return other != neighbour and self._turned_down.get((neighbour, other), 0.0) <= now_s

    def take(self, neighbour: bytes, others: Sequence[Answerer], now_s: float) -> Answerer | None:
        """Return which key to dial, and count that: the first one of those that answered now, else the one that did
        before; None if there is none, it is not time yet, or it has been dialled too often."""
        before = self._unheard.get(neighbour)
        one = others[0] if others else before.one if before is not None else None
        if one is None or not self.may_succeed(neighbour, one.key, now_s):
            return None
        tries = 0
        if before is not None and one == before.one:
            if now_s < before.rests_until_s:
                return None
            tries = before.tries
        if tries >= TRIES_MAX:
            self.turn_down(neighbour, one.key, now_s)
            return None
        self._unheard[neighbour] = _Unheard(one, tries + 1, now_s + self._again_s * 2**tries)
        return one

    def turn_down(self, neighbour: bytes, other: bytes, now_s: float) -> None:
        """Remember that a key which answered in place of a neighbour's has not followed that."""
        self._unheard.pop(neighbour, None)
        self._turned_down.pop((neighbour, other), None)
        if len(self._turned_down) >= NO_SUCCESSORS_MAX:
            del self._turned_down[next(iter(self._turned_down))]
        self._turned_down[neighbour, other] = now_s + NO_SUCCESSOR_S

    def keep(self, neighbours: Container[bytes]) -> None:
        """Forget who answered in place of other neighbours than these."""
        self._unheard = {key: one for key, one in self._unheard.items() if key in neighbours}
