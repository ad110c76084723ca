"""A node's advertisement sent to single routers: those that are new, and those that were silent for a while (R-D19)."""

from __future__ import annotations

from math import inf

from router.service.contract import Came, Deed, Now, Write
from services.discovery.core.lan.neighbours import Neighbour, Source, source_of
from services.discovery.core.lan.paces import Pace

ANSWERED_PER_S, ANSWERED_EACH_S = 10, 10.0
"""Most answers in a second to keys that no link has proven, and as many to others, so that these do not wait for a
crowd; to each key at each of its addresses one in that time."""


class Answers:
    """Sends what is said at a multicast door to one router alone, to a few a second."""

    def __init__(self, door: str) -> None:
        self._door = door
        self._claimed, self._proven = (Pace(ANSWERED_PER_S, each_s=ANSWERED_EACH_S) for _ in range(2))

    def __repr__(self) -> str:
        return f"<answers: {self._claimed!r}>"

    def answer(self, said: bytes, one: Neighbour, came: Came, source: Source, now: Now) -> list[Deed]:
        """Send a router our advertisement, so that it need not wait for our next datagram.

        It is sent to each address that the router sends from, as not all may be reachable; and again if the router
        refuses us, since it may receive no other datagram. A router that sends to us alone has not heard us for a
        while."""
        knows_us = one.is_here and source in one.sources and one.let_in
        asks = not knows_us if came.to_group else one.is_here
        return self._tell(said, one, source, came.peer, now) if asks else []

    def ask(self, said: bytes, one: Neighbour, now: Now) -> list[Deed]:
        """Send our advertisement to a router that was silent for half its time: it answers to us alone (R-D19)."""
        one.ask_s = inf
        return self._tell(said, one, source_of(one.peer), one.peer, now)

    def _tell(self, said: bytes, one: Neighbour, source: Source, peer: str, now: Now) -> list[Deed]:
        pace = self._proven if one.is_proven else self._claimed
        may = said and pace.take((one.key, source), now.mono_s)
        return [Write(self._door, peer, said)] if may else []
