"""Random gossip: on first receipt, a copy to F random entries of the view; with or without a retry at the dead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from services.pubsub.simulation.broadcast import Broadcast
from services.pubsub.simulation.engine import CONNECT_FAILS_S, Engine, Links


class Copy(Struct, frozen=True):
    """A copy of the message that arrives from `by`, after `hop` hops."""

    by: int
    hop: int


class CopyNotTaken(Struct, frozen=True):
    """Reports that a copy for a dead node was not taken, so that another entry of the view is tried."""

    hop: int


class Gossip:
    """Random gossip over given views: the first F of a random order of the view, without the sender.

    With `retries`, each that turns out dead after `CONNECT_FAILS_S` is replaced by the next in that order.
    """

    def __init__(
        self, engine: Engine, links: Links, views: Callable[[int], Sequence[int]], fanout: int, retries: bool = False
    ) -> None:
        self._engine = engine
        self._links = links
        self._views = views
        self._fanout = fanout
        self._retries = retries
        self._alive: Callable[[int], bool] = lambda node: True
        self._untried: dict[int, list[int]] = {}
        self._broadcast = Broadcast(0, 0.0)

    def publish(self, origin: int, alive: Callable[[int], bool]) -> Broadcast:
        """Spread one message until none is on its way; return its receipts."""
        self._alive, self._untried = alive, {}
        self._broadcast = Broadcast(origin, self._engine.now_s)
        self._forward(origin, origin, 0)
        self._engine.run(self._happen)
        return self._broadcast

    def _happen(self, node: int, event: object) -> None:
        match event:
            case Copy() if self._alive(node):
                if self._broadcast.received(node, event.hop, self._engine.now_s):
                    self._forward(node, event.by, event.hop)
            case CopyNotTaken():
                self._send_next(node, event.hop)

    def _forward(self, node: int, by: int, hop: int) -> None:
        chance = self._engine.chance
        targets = [one for one in self._views(node) if one not in (by, node)]
        count = len(targets) if self._retries else min(self._fanout, len(targets))
        self._untried[node] = chance.sample(targets, count)
        for _ in range(self._fanout):
            self._send_next(node, hop)
        if not self._retries:
            del self._untried[node]

    def _send_next(self, node: int, hop: int) -> None:
        untried = self._untried[node]
        if not untried:
            return
        target = untried.pop()
        if not self._alive(target):
            if self._retries:
                self._engine.after(CONNECT_FAILS_S, node, CopyNotTaken(hop))
        elif not self._links.loses():
            self._engine.after(self._links.delay_s(node, target), target, Copy(node, hop + 1))
