"""Plumtree over HyParView as published: a tree that is grown by pruning, and mended by grafting.

A node pushes a message to its eager neighbours and announces it to the lazy ones. A duplicate makes the link it came
over lazy. A node asks for an announced message that does not come in time, which makes that link eager again (Leitão,
Pereira, Rodrigues, "Epidemic Broadcast Trees", 2007).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from services.pubsub.simulation.baselines.gossipsub import IHave
from services.pubsub.simulation.baselines.hyparview import HyParView
from services.pubsub.simulation.broadcast import Broadcast
from services.pubsub.simulation.engine import CONNECT_FAILS_S, Engine, Links

MISSING_S = 1.0
"""Seconds that a node waits for a message after its first announcement."""
GRAFT_S = 0.5
"""Seconds that it waits for the answer before it asks the next node that announced the message."""
CYCLES, WARM_UPS = 20, 20


class TreeMessage(Struct, frozen=True):
    """The message itself, from `by`, after `hop` hops."""

    by: int
    hop: int


class Prune(Struct, frozen=True):
    """A request of `by` to be sent announcements only."""

    by: int


class Graft(Struct, frozen=True):
    """A request of `by` to be sent messages again, and this one now."""

    by: int


class StillMissing(Struct, frozen=True):
    """Reports that an announced message should have come by now."""


class NeighbourFailed(Struct, frozen=True):
    """Reports that a neighbour is dead."""

    peer: int


class CandidateFailed(Struct, frozen=True):
    """Reports that a candidate asked to become a neighbour is dead."""


class Plumtree:
    """A network of nodes that joined one after the other, shuffled, and sent some messages to grow the tree."""

    def __init__(self, engine: Engine, links: Links, nodes: int) -> None:
        self._engine, self._links = engine, links
        self._alive: Callable[[int], bool] = lambda node: True
        self._eager: list[set[int]] = [set() for _ in range(nodes)]
        self._lazy: list[set[int]] = [set() for _ in range(nodes)]
        self._announced: dict[int, list[int]] = {}
        self._broadcast = Broadcast(0, 0.0)
        self._overlay = HyParView(engine.chance, self._up, self._down)
        for _ in range(nodes):
            self._overlay.join()
        for _ in range(CYCLES):
            self._overlay.cycle()
        for _ in range(WARM_UPS):
            self.publish(engine.chance.randrange(nodes), self._alive)

    def __repr__(self) -> str:
        return f"<Plumtree over {self._overlay!r}>"

    def publish(self, origin: int, alive: Callable[[int], bool]) -> Broadcast:
        """Spread one message until none is on its way; return its receipts."""
        self._alive, self._announced = alive, {}
        self._broadcast = Broadcast(origin, self._engine.now_s)
        self._push(origin, origin, 0)
        self._engine.run(self._happen)
        return self._broadcast

    def _up(self, one: int, other: int) -> None:
        self._eager[one].add(other)
        self._eager[other].add(one)

    def _down(self, one: int, other: int) -> None:
        for node, peer in ((one, other), (other, one)):
            self._eager[node].discard(peer)
            self._lazy[node].discard(peer)

    def _happen(self, node: int, event: object) -> None:
        if not self._alive(node):
            return
        match event:
            case TreeMessage():
                self._receive(node, event)
            case IHave():
                self._hear_of(node, event.by)
            case Prune():
                self._make_lazy(node, event.by)
            case Graft():
                self._make_eager(node, event.by)
                self._send(node, event.by, TreeMessage(node, self._broadcast.hops[node] + 1))
            case StillMissing():
                self._graft(node)
            case NeighbourFailed():
                if self._overlay.failed(node, event.peer):
                    self._replace(node)
            case CandidateFailed():
                self._replace(node)

    def _receive(self, node: int, came: TreeMessage) -> None:
        if self._broadcast.received(node, came.hop, self._engine.now_s):
            self._make_eager(node, came.by)
            self._push(node, came.by, came.hop)
        else:
            self._make_lazy(node, came.by)
            self._send(node, came.by, Prune(node))

    def _push(self, node: int, by: int, hop: int) -> None:
        for peer in sorted(self._eager[node] - {by}):
            self._send(node, peer, TreeMessage(node, hop + 1))
        for peer in sorted(self._lazy[node] - {by}):
            self._send(node, peer, IHave(node))

    def _hear_of(self, node: int, by: int) -> None:
        if node in self._broadcast.times_s:
            return
        if node not in self._announced:
            self._announced[node] = []
            self._engine.after(MISSING_S, node, StillMissing())
        self._announced[node].append(by)

    def _graft(self, node: int) -> None:
        announced = self._announced[node]
        if node in self._broadcast.times_s:
            return
        if not announced:
            del self._announced[node]  # the next announcement starts the clock again
            return
        peer = announced.pop(0)
        self._make_eager(node, peer)
        self._send(node, peer, Graft(node))
        self._engine.after(GRAFT_S, node, StillMissing())

    def _make_eager(self, node: int, peer: int) -> None:
        if peer in self._overlay.active[node]:
            self._lazy[node].discard(peer)
            self._eager[node].add(peer)

    def _make_lazy(self, node: int, peer: int) -> None:
        if peer in self._overlay.active[node]:
            self._eager[node].discard(peer)
            self._lazy[node].add(peer)

    def _send(self, node: int, peer: int, event: object) -> None:
        if not self._alive(peer):
            self._engine.after(CONNECT_FAILS_S, node, NeighbourFailed(peer))
        elif not self._links.loses():
            self._engine.after(self._links.delay_s(node, peer), peer, event)

    def _replace(self, node: int) -> None:
        """Ask passive entries until one becomes a neighbour; a dead one costs `CONNECT_FAILS_S`."""
        for _ in range(len(self._overlay.passive[node])):
            candidate = self._overlay.candidate(node)
            if candidate is None:
                return
            if not self._alive(candidate):
                self._engine.after(CONNECT_FAILS_S, node, CandidateFailed())
                return
            if self._overlay.ask(node, candidate):
                return
