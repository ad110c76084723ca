"""Exchange of filters: finds other nodes that may want the groups that this one wants, and so are worth a meeting
(R-C36).

`InterestTable` takes one event after the other and returns the nodes to ask; it checks no signature. Each period one of
the nodes that were not asked for longest is asked, with the own filter and some of others. Ages travel outside the
signatures and are never reset (R-D11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Neighbour
from services.pubsub.core.meetings.filters import ONES_MAX, Reading, count_ones
from services.pubsub.core.messages import INTERESTS_MAX, Filter


class InterestLimits(Struct, frozen=True):
    """Most other nodes that are known (`known_max`) and passed on (`told_max`), and the age in periods beyond which
    none is.

    At most `of_prefix_max` of one public network are known. `suggested_max`: how many are suggested for a meeting, for
    up to `groups_max` groups, those with the fewest neighbours."""

    known_max: int = 256
    told_max: int = INTERESTS_MAX
    age_max: int = 25
    of_prefix_max: int = 16
    suggested_max: int = 16
    groups_max: int = 64


class Interest(Struct):
    """The knowledge of another node: its age in periods, and the node's filter with its evidence, if it is known.

    `asked`: number of periods since it was asked."""

    neighbour: Neighbour
    age: int
    filter: Filter | None = None
    asked: int = 1 << 16
    reading: Reading | None = None


class InterestTable:
    """The filters of other nodes, by their routers."""

    __slots__ = ("_chance", "_known", "_limits", "_own")

    def __init__(self, own: PublicKey, chance: Chance, limits: InterestLimits | None = None) -> None:
        self._own = own
        self._chance = chance
        self._limits = limits or InterestLimits()
        self._known: dict[PublicKey, Interest] = {}

    def __repr__(self) -> str:
        return f"<filters of {sum(one.filter is not None for one in self._known.values())} of {len(self._known)} nodes>"

    def __len__(self) -> int:
        return len(self._known)

    def rev(self, router: PublicKey) -> int:
        """Return the revision of a router's known filter, -1 if there is none."""
        found = self._known.get(router)
        return -1 if found is None or found.filter is None else found.filter.rev

    def offer(self, neighbour: Neighbour) -> None:
        """Add a node that was found elsewhere, without a filter."""
        if neighbour.router not in self._known:
            self._put(Interest(neighbour, 0))

    def take(self, neighbour: Neighbour, age: int, found: Filter) -> bool:
        """Add a filter, unless a newer one is known; return False if no filter made by the rules has that many bits
        set."""
        if count_ones(found.bits) > ONES_MAX:
            return False
        if neighbour.router == self._own or age > self._limits.age_max:
            return True
        known, rev = self._known.get(neighbour.router), self.rev(neighbour.router)
        if known is None:
            self._put(Interest(neighbour, age, found, reading=Reading(found.bits)))
        elif found.rev > rev:
            known.neighbour, known.age = neighbour, age
            known.filter, known.reading = found, Reading(found.bits)
        elif found.rev == rev:
            known.neighbour, known.age = neighbour, min(known.age, age)
        return True

    def forget(self, router: PublicKey) -> None:
        self._known.pop(router, None)

    def period(self) -> Neighbour | None:
        """Let a period pass; return the node to ask: a random one of those not asked for longest."""
        for one in self._known.values():
            one.age += 1
            one.asked += 1
        for router in [router for router, one in self._known.items() if one.age > self._limits.age_max]:
            del self._known[router]
        longest = max((one.asked for one in self._known.values()), default=0)
        found = [one for one in self._known.values() if one.asked == longest]
        if not found:
            return None
        chosen = found[self._chance.randrange(len(found))]
        chosen.asked = 0
        return chosen.neighbour

    def told(self, to: PublicKey) -> tuple[Interest, ...]:
        """Return some random filters to pass on to a node."""
        found = [one for one in self._known.values() if one.filter is not None and one.neighbour.router != to]
        return tuple(self._chance.sample(found, min(self._limits.told_max, len(found))))

    def has_others(self, but: Collection[PublicKey]) -> bool:
        """Whether nodes are known besides these."""
        return any(router not in but for router in self._known)

    def suggested(self, groups: Sequence[tuple[PublicKey, int]], but: Collection[PublicKey]) -> tuple[Neighbour, ...]:
        """Return the nodes to meet, the most promising first. `groups`: each with the number of its neighbours here."""
        if not groups:
            return ()
        loneliest = self._loneliest(groups)
        found = [one for one in self._known.values() if one.neighbour.router not in but]
        worth = {id(one): _worth(one.reading, loneliest) for one in found}
        found.sort(key=lambda one: worth[id(one)], reverse=True)
        return tuple([one.neighbour for one in found[: self._limits.suggested_max]])

    def _loneliest(self, groups: Sequence[tuple[PublicKey, int]]) -> list[tuple[PublicKey, int]]:
        """Return the groups with the fewest neighbours; among equals, random ones."""
        most = self._limits.groups_max
        if len(groups) <= most:
            return list(groups)
        last = sorted(neighbours for _, neighbours in groups)[most - 1]
        surely = [one for one in groups if one[1] < last]
        return [*surely, *self._chance.sample([one for one in groups if one[1] == last], most - len(surely))]

    def _put(self, one: Interest) -> None:
        """Add a node; beyond the limit the oldest is replaced, or the oldest of its public network if that has too
        many."""
        prefix, known = one.neighbour.prefix, self._known
        if one.neighbour.router == self._own:
            return
        alike = [each for each in known.values() if prefix is not None and each.neighbour.prefix == prefix]
        full = len(alike) >= self._limits.of_prefix_max
        if full or len(known) >= self._limits.known_max:
            oldest = max(alike if full else self._all(), key=lambda each: each.age)
            if oldest.age < one.age:
                return
            del known[oldest.neighbour.router]
        known[one.neighbour.router] = one

    def _all(self) -> Iterator[Interest]:
        return iter(self._known.values())


def _worth(found: Reading | None, groups: Iterable[tuple[PublicKey, int]]) -> float:
    """Return a measure of how many groups a node has in common; those with few neighbours count more."""
    if found is None:
        return 0.0
    return sum(found.likelihood(group) / (1 + neighbours) for group, neighbours in groups)
