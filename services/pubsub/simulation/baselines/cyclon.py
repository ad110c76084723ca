"""Cyclon as published: the enhanced shuffle of random views (Voulgaris, Gavidia, van Steen, 2005).

In each cycle every node removes the oldest entry of its view, sends to that node its own address and random others, and
receives as many random entries; both put new entries into empty places first, then in place of those they sent. An
entry is stored as the cycle in which its node made it, so its age needs no counting.

The published figures of dissemination over such views, against which this simulator is held, are of Voulgaris and van
Steen, "Hybrid Dissemination", 2007: 10,000 nodes, rounds of equal length, each node sending to F of its view.
"""

from __future__ import annotations

from random import Random

VIEW = 35
SHUFFLE = 14
CYCLES = 40
"""Enough cycles to forget the views with which the network began: its in-degrees do not change after some 30."""


class Cyclon:
    """The views of all nodes, which begin with random entries: node → {entry: the cycle in which it was made}."""

    def __init__(self, nodes: int, chance: Random, view: int = VIEW, shuffle: int = SHUFFLE) -> None:
        self._chance = chance
        self._view, self._shuffle = min(view, nodes - 1), min(shuffle, view, nodes - 1)
        self._cycle = 0
        self.views: list[dict[int, int]] = [
            {(one if one < node else one + 1): 0 for one in chance.sample(range(nodes - 1), self._view)}
            for node in range(nodes)
        ]

    def __repr__(self) -> str:
        return f"<Cyclon of {len(self.views)} nodes after {self._cycle} cycles>"

    def run(self, cycles: int = CYCLES) -> None:
        """Let every node shuffle once in each cycle, in an order that is drawn anew."""
        order = list(range(len(self.views)))
        for _ in range(cycles):
            self._cycle += 1
            self._chance.shuffle(order)
            for node in order:
                self._exchange(node)

    def _exchange(self, node: int) -> None:
        own = self.views[node]
        partner = min(own, key=own.__getitem__)
        other = self.views[partner]
        del own[partner]
        sent = self._chance.sample(list(own.items()), min(self._shuffle - 1, len(own)))
        answer = self._chance.sample(list(other.items()), min(self._shuffle, len(other)))
        self._merge(partner, [*sent, (node, self._cycle)], [entry for entry, _ in answer])
        self._merge(node, answer, [entry for entry, _ in sent])

    def _merge(self, node: int, received: list[tuple[int, int]], sent: list[int]) -> None:
        view = self.views[node]
        for entry, made in received:
            if entry == node or entry in view:
                continue
            while len(view) >= self._view and sent:
                view.pop(sent.pop(), None)
            if len(view) < self._view:
                view[entry] = made
