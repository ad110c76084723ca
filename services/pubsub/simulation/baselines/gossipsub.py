"""A GossipSub mesh: whole messages to some peers, announcements to others (Vyzovitis and others, 2020; version 1.2).

Each node keeps D of its peers in its mesh and forwards to all of these. Every heartbeat it announces recent messages
(IHAVE) to random peers outside its mesh, which ask for missing ones (IWANT); and it grafts and prunes until its mesh
has its size. A node that receives a message for the first time tells its mesh that it wants no other copy (IDONTWANT).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from services.pubsub.simulation.broadcast import Broadcast
from services.pubsub.simulation.engine import CONNECT_FAILS_S, Engine, Links

D, D_LOW, D_HIGH = 6, 5, 12
D_LAZY, GOSSIP_FACTOR, GOSSIP_HEARTBEATS = 6, 0.25, 3
HEARTBEAT_S = 1.0
DIALLED = 12
"""Number of peers that each node dials; with those that dial it, it has twice as many."""
SETTLING_HEARTBEATS = 15
LASTS_S = 40.0
"""Seconds for which a message is followed."""


class Payload(Struct, frozen=True):
    """The message itself, from `by`, after `hop` hops."""

    by: int
    hop: int


class IHave(Struct, frozen=True):
    """An announcement of the message by `by`."""

    by: int


class IWant(Struct, frozen=True):
    """A request of `by` for the message."""

    by: int


class IDontWant(Struct, frozen=True):
    """An announcement of `by` that it has the message."""

    by: int


class Failed(Struct, frozen=True):
    """Reports that a peer is dead."""

    peer: int


class Heartbeat(Struct, frozen=True):
    """The heartbeat of a node, of the message with that number."""

    message: int


class GossipSub:
    """A random graph of peers in which the meshes have settled."""

    def __init__(self, engine: Engine, links: Links, nodes: int) -> None:
        self._engine, self._links = engine, links
        self._alive: Callable[[int], bool] = lambda node: True
        self._peers: list[set[int]] = [set() for _ in range(nodes)]
        self._mesh: list[set[int]] = [set() for _ in range(nodes)]
        self._message = 0
        self._broadcast = Broadcast(0, 0.0)
        self._heartbeats: dict[int, int] = {}
        self._unwanted: dict[int, set[int]] = {}
        for node in range(nodes):
            for peer in engine.chance.sample(range(nodes), min(DIALLED, nodes)):
                if peer != node:
                    self._peers[node].add(peer)
                    self._peers[peer].add(node)
        for _ in range(SETTLING_HEARTBEATS):
            for node in range(nodes):
                self._tend(node)

    def __repr__(self) -> str:
        return f"<GossipSub of {len(self._peers)} nodes>"

    def mesh_sizes(self) -> list[int]:
        """Return the size of each node's mesh."""
        return [len(one) for one in self._mesh]

    def publish(self, origin: int, alive: Callable[[int], bool]) -> Broadcast:
        """Spread one message, and follow it for `LASTS_S`; return its receipts."""
        self._alive, self._heartbeats, self._unwanted = alive, {}, {}
        self._message += 1
        began_s = self._engine.now_s
        self._broadcast = Broadcast(origin, began_s)
        for node in filter(alive, range(len(self._peers))):
            self._engine.after(self._engine.chance.random() * HEARTBEAT_S, node, Heartbeat(self._message))
        self._forward(origin, origin, 0)
        self._engine.run(self._happen, began_s + LASTS_S)
        return self._broadcast

    def _happen(self, node: int, event: object) -> None:
        has = node in self._broadcast.times_s
        match event:
            case _ if not self._alive(node):
                return
            case Payload():
                if self._broadcast.received(node, event.hop, self._engine.now_s):
                    self._forward(node, event.by, event.hop)
            case IHave() if not has:
                self._send(node, event.by, IWant(node))
            case IWant() if has:
                self._send(node, event.by, Payload(node, self._broadcast.hops[node] + 1))
            case IDontWant():
                self._unwanted.setdefault(node, set()).add(event.by)
            case Failed():
                self._mesh[node].discard(event.peer)
                self._peers[node].discard(event.peer)
            case Heartbeat(message) if message == self._message:
                self._beat(node, has)
                self._engine.after(HEARTBEAT_S, node, event)

    def _forward(self, node: int, by: int, hop: int) -> None:
        mesh = sorted(self._mesh[node] - {by})
        unwanted = self._unwanted.get(node, ())
        for peer in mesh:
            self._send(node, peer, IDontWant(node))
        for peer in mesh:
            if peer not in unwanted:
                self._send(node, peer, Payload(node, hop + 1))

    def _send(self, node: int, peer: int, event: object) -> None:
        if not self._alive(peer):
            self._engine.after(CONNECT_FAILS_S, node, Failed(peer))
        elif not self._links.loses():
            self._engine.after(self._links.delay_s(node, peer), peer, event)

    def _beat(self, node: int, has: bool) -> None:
        self._tend(node)
        beats = self._heartbeats.get(node, 0)
        if not has or beats >= GOSSIP_HEARTBEATS:
            return
        self._heartbeats[node] = beats + 1
        others = sorted(self._peers[node] - self._mesh[node])
        count = min(len(others), max(D_LAZY, int(GOSSIP_FACTOR * len(others))))
        for peer in self._engine.chance.sample(others, count):
            self._send(node, peer, IHave(node))

    def _tend(self, node: int) -> None:
        """Graft until the mesh has its size, or prune."""
        mesh, chance = self._mesh[node], self._engine.chance
        if len(mesh) > D_HIGH:
            for peer in chance.sample(sorted(mesh), len(mesh) - D):
                mesh.discard(peer)
                self._mesh[peer].discard(node)
        elif len(mesh) < D_LOW:
            others = sorted(self._peers[node] - mesh)
            for peer in chance.sample(others, min(len(others), D - len(mesh))):
                if not self._alive(peer):
                    self._engine.after(CONNECT_FAILS_S, node, Failed(peer))
                elif len(self._mesh[peer]) < D_HIGH:
                    mesh.add(peer)
                    self._mesh[peer].add(node)
