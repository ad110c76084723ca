"""One message on its way through a network: which nodes have it, since when, over how many hops, and how many copies
came."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import fmean

from msgspec import Struct

PERCENTILE = 0.99


class Reach(Struct, frozen=True):
    """The spread of a message over the nodes that should have it.

    `hit`: the share that has it. `copies`: copies received by each on average. `last_hop`: the hop of the last
    delivery. `p99_s`: seconds until 99 % of the nodes that have it had it.
    """

    hit: float
    copies: float
    last_hop: float
    p99_s: float


class Broadcast:
    """The receipts of one message. The node that publishes it has it at hop 0 and has received no copy."""

    __slots__ = ("began_s", "copies", "hops", "times_s")

    def __init__(self, origin: int, now_s: float) -> None:
        self.began_s = now_s
        self.times_s: dict[int, float] = {origin: now_s}
        self.hops: dict[int, int] = {origin: 0}
        self.copies: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<broadcast that {len(self.times_s)} nodes have, in {sum(self.copies.values())} copies>"

    def received(self, node: int, hop: int, now_s: float) -> bool:
        """Count a copy that a node received; return whether it is the node's first."""
        self.copies[node] = self.copies.get(node, 0) + 1
        if node in self.times_s:
            return False
        self.times_s[node] = now_s
        self.hops[node] = hop
        return True

    def until(self, end_s: float) -> Broadcast:
        """Return the receipts up to then; copies are counted as they are now."""
        found = Broadcast(0, self.began_s)
        found.times_s = {node: time_s for node, time_s in self.times_s.items() if time_s <= end_s}
        found.hops, found.copies = self.hops, self.copies
        return found

    def reach(self, among: Collection[int]) -> Reach:
        """Return how far the message came among these nodes, of which there is at least one."""
        have = sorted((self.times_s[node], self.hops[node]) for node in among if node in self.times_s)
        copies = sum(self.copies.get(node, 0) for node in among)
        if not have:
            return Reach(0.0, copies / len(among), 0.0, 0.0)
        at = min(len(have) - 1, int(PERCENTILE * len(have)))
        return Reach(len(have) / len(among), copies / len(among), have[-1][1], have[at][0] - self.began_s)

    def curve(self, among: Collection[int]) -> list[tuple[float, float]]:
        """Return the share of these nodes that had the message, over the seconds since it was published."""
        times = sorted(self.times_s[node] - self.began_s for node in among if node in self.times_s)
        return [(time_s, number / len(among)) for number, time_s in enumerate(times, 1)]


def mean_reach(reaches: Iterable[Reach]) -> Reach:
    """Return the mean of each figure over several messages."""
    all_of = list(reaches)
    return Reach(
        fmean(one.hit for one in all_of),
        fmean(one.copies for one in all_of),
        fmean(one.last_hop for one in all_of),
        fmean(one.p99_s for one in all_of),
    )
