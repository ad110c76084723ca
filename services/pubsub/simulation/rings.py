"""Rings in a simulated network: built complete at once, and measured against the right ones."""

from __future__ import annotations

from collections.abc import Sequence

from router.core.wire.crypto import PublicKey
from services.pubsub.core.rings.view import ViewLimits
from services.pubsub.simulation.network import GROUP, TOPIC_BYTES, Network


def make_whole(network: Network, group: PublicKey = GROUP) -> None:
    """Give each live node of a group its final view: the nearest ones, and others at random."""
    order = members(network, group)
    limits = ViewLimits()
    near = min(limits.side, len(order) - 1)
    for at, number in enumerate(order):
        after = [order[(at + step) % len(order)] for step in range(1, near + 1)]
        before = [order[at - step] for step in range(1, near + 1)]
        taken = {number, *after, *before}
        free = min(limits.others, len(order) - len(taken))
        others = list[int]()
        while len(others) < free:
            other = network.engine.chance.choice(order)
            if other not in taken:
                taken.add(other)
                others.append(other)
        node = network.nodes[number]
        for one in taken - {number}:
            node.known.share(network.nodes[one].key, {group: group[:TOPIC_BYTES]})
            if node.overlay is not None:
                node.overlay.met(network.neighbour(one), network.engine.now_s)
        if node.overlay is None:
            sides = (tuple([network.neighbour(one) for one in side]) for side in (after, before, others))
            node.known.topics[group].show(*sides)


def members(network: Network, group: PublicKey = GROUP) -> list[int]:
    """Return the live nodes of a group in the order of the ring."""
    wanting = [one for one in network.nodes if one.number not in network.dead and group in one.known.topics]
    return [one.number for one in sorted(wanting, key=lambda one: one.key)]


def right_links(network: Network, order: Sequence[int], group: PublicKey = GROUP) -> int:
    """Return how many links of the right ring exist: of each node, to the next one on both sides."""
    found = 0
    for at, number in enumerate(order):
        topic = network.nodes[number].known.topics[group]
        for side, right in ((topic.after, order[(at + 1) % len(order)]), (topic.before, order[at - 1])):
            found += bool(side) and side[0].router == network.nodes[right].key
    return found
