"""HyParView as published: a small symmetric active view, and a passive one to mend it from.

A node that joins is carried by random walks into active views. Every cycle a node exchanges a sample of both views with
a node some steps away, which fills the passive views. A dead neighbour is replaced from the passive view: the node
asked accepts one without neighbours at once, any other only if it has room (Leitão, Pereira, Rodrigues, "HyParView",
2007).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

ACTIVE, PASSIVE = 5, 30
ACTIVE_WALK, PASSIVE_WALK = 6, 3
SHUFFLE_ACTIVE, SHUFFLE_PASSIVE = 3, 4


class HyParView:
    """The views of all nodes. `up` and `down` are called with both ends of a link that comes or goes."""

    def __init__(self, chance: Random, up: Callable[[int, int], None], down: Callable[[int, int], None]) -> None:
        self._chance = chance
        self._up, self._down = up, down
        self.active: list[list[int]] = []
        self.passive: list[list[int]] = []

    def __repr__(self) -> str:
        return f"<HyParView of {len(self.active)} nodes>"

    def join(self) -> None:
        """Add a node, which knows the first one that joined."""
        new = len(self.active)
        self.active.append([])
        self.passive.append([])
        if new == 0:
            return
        self.connect(0, new)
        for neighbour in list(self.active[0]):
            if neighbour != new:
                self._walk(new, neighbour, 0)

    def _walk(self, new: int, node: int, sender: int) -> None:
        for left in range(ACTIVE_WALK, -1, -1):
            onward = [one for one in self.active[node] if one not in (sender, new)]
            if left == 0 or len(self.active[node]) == 1 or not onward:
                break
            if left == PASSIVE_WALK:
                self._remember(node, new)
            node, sender = self._chance.choice(onward), node
        if node != new:
            self.connect(node, new)

    def connect(self, one: int, other: int) -> None:
        """Make two nodes neighbours; each without room drops another neighbour for it."""
        if other in self.active[one]:
            return
        for node in (one, other):
            if len(self.active[node]) >= ACTIVE:
                self._drop(node, self._chance.choice(self.active[node]))
        for node, neighbour in ((one, other), (other, one)):
            self.active[node].append(neighbour)
            if neighbour in self.passive[node]:
                self.passive[node].remove(neighbour)
        self._up(one, other)

    def _drop(self, node: int, neighbour: int) -> None:
        self.active[node].remove(neighbour)
        self.active[neighbour].remove(node)
        self._down(node, neighbour)
        self._remember(node, neighbour)
        self._remember(neighbour, node)

    def failed(self, node: int, neighbour: int) -> bool:
        """Remove a dead neighbour from a node's active view; return whether it was in it."""
        if neighbour not in self.active[node]:
            return False
        self.active[node].remove(neighbour)
        self._down(node, neighbour)
        return True

    def candidate(self, node: int) -> int | None:
        """Remove and return a random entry of a node's passive view, to ask it; None if the view is empty."""
        passive = self.passive[node]
        return passive.pop(self._chance.randrange(len(passive))) if passive else None

    def ask(self, node: int, candidate: int) -> bool:
        """Ask a live candidate to become a neighbour; return whether it does."""
        if self.active[node] and len(self.active[candidate]) >= ACTIVE:
            self._remember(node, candidate)
            return False
        self.connect(node, candidate)
        return True

    def cycle(self) -> None:
        """Let every node shuffle, and ask a passive entry if it has too few neighbours. All nodes are alive."""
        for node in range(len(self.active)):
            self._shuffle(node)
            if len(self.active[node]) < ACTIVE and (candidate := self.candidate(node)) is not None:
                self.ask(node, candidate)

    def _shuffle(self, node: int) -> None:
        """Exchange a sample of both views with the node at the end of a random walk."""
        partner, sender = node, -1
        for _ in range(ACTIVE_WALK):
            onward = [one for one in self.active[partner] if one not in (sender, node)]
            if not onward:
                break
            partner, sender = self._chance.choice(onward), partner
        if partner == node:
            return
        sent = [node, *self._some(self.active[node], SHUFFLE_ACTIVE), *self._some(self.passive[node], SHUFFLE_PASSIVE)]
        answer = self._some(self.passive[partner], len(sent))
        for to, entries in ((partner, sent), (node, answer)):
            for entry in entries:
                self._remember(to, entry)

    def _some(self, view: list[int], count: int) -> list[int]:
        return self._chance.sample(view, min(count, len(view)))

    def _remember(self, node: int, entry: int) -> None:
        passive = self.passive[node]
        if entry == node or entry in passive or entry in self.active[node]:
            return
        if len(passive) >= PASSIVE:
            passive.pop(self._chance.randrange(PASSIVE))
        passive.append(entry)
