"""Filters exchanged in a simulated network, by which nodes without hints find others that want the same topics (R-C36).

The tables of filters and the choice of nodes to meet are those that ship. Two parts are simplified: nothing is signed,
and discovery is a random draw of nodes (`router simulate sampling` shows that this is right).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from router.core.wire.crypto import PublicKey, Signature
from services.pubsub.core.meetings.filters import SECRET_BYTES, tell
from services.pubsub.core.meetings.interest_table import Interest, InterestTable
from services.pubsub.core.meetings.interests import ExchangeLimits
from services.pubsub.core.messages import Filter
from services.pubsub.simulation.network import Network, Node

ANNOUNCED_PER_S = 0.5
"""New nodes that discovery announces a second: of 1,000 nodes, six or seven in ten seconds that were not announced
before."""
UNSIGNED = Signature(bytes(64))


class Period(NamedTuple):
    """A period of the exchange begins; this many more are short."""

    fast: int


class FilterTold(NamedTuple):
    """A node sends its filter and some of others. `is_question`: it wants as many in return."""

    by: int
    mine: Filter
    view: tuple[Interest, ...]
    is_question: bool


class Exchange:
    """The exchange of filters between all present nodes."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._limits = ExchangeLimits()
        self._chance = chance = network.engine.chance
        self._tables = [InterestTable(node.key, chance, self._limits.table) for node in network.nodes]
        self._filters = [
            Filter(1, tell(node.known.topics, chance.randbytes(SECRET_BYTES)), UNSIGNED) for node in network.nodes
        ]
        network.on(Period, self._begin_period)
        network.on(FilterTold, self._hear)
        for node in network.nodes:
            network.engine.after(chance.random() * self._limits.fast_s, node.number, Period(self._limits.fast_periods))

    def __repr__(self) -> str:
        return f"<exchange of filters of {len(self._tables)} nodes>"

    def _begin_period(self, node: Node, event: Period) -> None:
        network, limits, table = self._network, self._limits, self._tables[node.number]
        period_s = limits.fast_s if event.fast else limits.period_s
        spread = limits.jitter * (2 * self._chance.random() - 1)
        network.engine.after(period_s * (1 + spread), node.number, Period(max(0, event.fast - 1)))
        for number in self._chance.choices(range(len(self._tables)), k=max(1, round(period_s * ANNOUNCED_PER_S))):
            table.offer(network.neighbour(number))
        to = table.period()
        if to is not None:
            self._tell(node, to.router, is_question=True)
        assert node.overlay is not None
        lonely = [(group, len(topic.neighbours)) for group, topic in node.known.topics.items()]
        node.overlay.suggest(table.suggested(lonely, _partners(node)))

    def _hear(self, node: Node, event: FilterTold) -> None:
        table, by = self._tables[node.number], self._network.neighbour(event.by)
        for one in event.view:
            if one.filter is not None:
                table.take(one.neighbour, one.age, one.filter)
        table.take(by, 0, event.mine)
        if event.is_question:
            self._tell(node, by.router, is_question=False)

    def _tell(self, node: Node, to: PublicKey, *, is_question: bool) -> None:
        view = _as_it_is(self._tables[node.number].told(to))
        said = FilterTold(node.number, self._filters[node.number], view, is_question)
        self._network.say(node, self._network.number(to), said)


def _partners(node: Node) -> set[PublicKey]:
    return {router for topic in node.known.topics.values() for router in topic.t}


def _as_it_is(told: Iterable[Interest]) -> tuple[Interest, ...]:
    """Return copies, because a table changes its own entries later."""
    return tuple([Interest(one.neighbour, one.age, one.filter) for one in told])
