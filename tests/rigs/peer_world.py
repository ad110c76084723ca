"""Many governors in one thread, without sessions: what they decide takes effect after a while, by a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from random import Random

from services.dmq.core.peers.acts import AskPeers, Dial, Hang
from services.dmq.core.peers.governor import Governor
from services.dmq.core.peers.hot_places import Targets
from services.dmq.core.peers.known import PeerState, RootGroup
from services.dmq.core.protocols.node_handshake import Agreement
from services.dmq.core.protocols.peer_sharing import PeerAddress

WAY_S, SILENCE_S = 1.0, 10.0
TARGETS = Targets()
AGREED = Agreement(2, True, True)


class WorldNode:
    """A node. `dials`: how often it has dialled each address."""

    def __init__(self, address: PeerAddress, chance: Random, targets: Targets) -> None:
        self.address = address
        self.governor = Governor(targets, chance, [address])
        self.is_alive = True
        self.links: dict[PeerAddress, None] = {}
        self.dials: Counter[PeerAddress] = Counter()

    def hot(self) -> set[PeerAddress]:
        return {peer.address for peer in self.governor.of_state(PeerState.HOT)}


class PeerWorld:
    """`flaps`: nodes that end each connection at once. `shares`: what a node shares, in place of its governor."""

    def __init__(self, seed: int, targets: Targets = TARGETS) -> None:
        self.chance = Random(seed)
        self.targets = targets
        self.nodes: dict[PeerAddress, WorldNode] = {}
        self.flaps: set[PeerAddress] = set()
        self.shares: dict[PeerAddress, tuple[PeerAddress, ...]] = {}
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def add(self, ip: str) -> WorldNode:
        node = WorldNode(PeerAddress(ip, 3141), self.chance, self.targets)
        self.nodes[node.address] = node
        self._look_at(node)
        return node

    def alive(self) -> list[WorldNode]:
        return [node for node in self.nodes.values() if node.is_alive]

    def name_roots(self, node: WorldNode, roots: Iterable[PeerAddress], hot: int = 3) -> None:
        node.governor.set_roots([RootGroup(tuple(roots), hot, hot, advertise=True)])

    def kill(self, node: WorldNode) -> None:
        node.is_alive = False
        for other in list(node.links):
            self._cut(node.address, other)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until_s = self.now_s + seconds
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, event = heappop(self._events)
            event()
        self.now_s = until_s

    def is_connected(self) -> bool:
        """Whether what any live node takes reaches all others, by pulling."""
        alive = {node.address: node for node in self.alive()}
        pulled_by: dict[PeerAddress, set[PeerAddress]] = {address: set() for address in alive}
        for node in alive.values():
            for source in node.hot() & alive.keys():
                pulled_by[source].add(node.address)
        pulls = {address: {one for one in alive if address in pulled_by[one]} for address in alive}
        start = next(iter(alive))
        return _reached(start, pulled_by) == _reached(start, pulls) == set(alive)

    def _at(self, after_s: float, event: Callable[[], None]) -> None:
        heappush(self._events, (self.now_s + after_s, next(self._numbers), event))

    def _look_at(self, node: WorldNode) -> None:
        """Let the node decide when something is due, once a second at most."""

        def decide() -> None:
            if node.is_alive and node.governor.due_s <= self.now_s:
                for act in node.governor.decide(self.now_s):
                    self._carry_out(node, act)
            due_s = node.governor.due_s
            if node.is_alive:
                self._at(min(max(due_s - self.now_s, 1.0), 30.0), decide)

        self._at(self.chance.random(), decide)

    def _carry_out(self, node: WorldNode, act: object) -> None:
        match act:
            case Dial(address):
                node.dials[address] += 1
                other = self.nodes.get(address)
                is_there = other is not None and other.is_alive
                self._at(WAY_S if is_there else SILENCE_S, lambda: self._dialled(node, address))
            case Hang(address):
                self._at(WAY_S, lambda: self._cut(node.address, address))
            case AskPeers(address, amount):
                self._at(WAY_S, lambda: self._asked(node, address, amount))

    def _dialled(self, node: WorldNode, address: PeerAddress) -> None:
        other = self.nodes.get(address)
        if not node.is_alive:
            return
        if other is None or not other.is_alive or address in node.links:
            node.governor.failed(address, self.now_s)
            return
        ours = node.governor.opened(address, AGREED, self.now_s, is_inbound=False)
        theirs = other.governor.opened(node.address, AGREED, self.now_s, is_inbound=True)
        node.links[address] = other.links[node.address] = None
        if not (ours and theirs) or {address, node.address} & self.flaps:
            self._cut(node.address, address)

    def _cut(self, ours: PeerAddress, theirs: PeerAddress) -> None:
        if theirs not in self.nodes[ours].links:
            return
        for one, other in ((ours, theirs), (theirs, ours)):
            self.nodes[one].links.pop(other, None)
            self.nodes[one].governor.closed(other, self.now_s)

    def _asked(self, node: WorldNode, address: PeerAddress, amount: int) -> None:
        if address in node.links:
            shared = self.shares.get(address)
            if shared is None:
                shared = self.nodes[address].governor.share(amount, node.address, self.now_s)
            else:
                shared = tuple(self.chance.sample(shared, min(amount, len(shared))))
            node.governor.told(address, shared, self.now_s)


def _reached(start: PeerAddress, edges: dict[PeerAddress, set[PeerAddress]]) -> set[PeerAddress]:
    found, todo = {start}, [start]
    while todo:
        for one in edges[todo.pop()] - found:
            found.add(one)
            todo.append(one)
    return found
