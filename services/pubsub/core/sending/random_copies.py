"""Which routers get copies over random links: those for which copies from here have been news.

Copies along the ring reach every node; those over random links (R-C33) make that faster, and replace links that do not
work. Most of them bring nothing new where a topic has few nodes, or where a message comes late to this one. A router
says of each copy whether it had the message already, and this part learns from it: how often random copies are news in
a topic, for each way in which messages come here, and for each pair of routers, the one that brought a message and the
one that gets it. Where they seldom are, copies are left out, but for a few by which a change shows.

That holds for topics of which the view knows nobody beside the two sides, of some twenty nodes at most: in larger ones
most random copies are news. All are sent again when a copy is not taken, or the first neighbour on a side of the ring
has changed. A router of an earlier version does not say what it had: what it takes counts as news.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct, field

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Neighbour, Topic


class Came(Enum):
    """The way in which a message came to this node."""

    HERE = "it was published here, or a client or LAN neighbour brought it"
    ALONG_THE_RING = "the first live neighbour on a side brought it"
    AT_RANDOM = "another router of the topic brought it"


class RandomCopiesLimits(Struct, frozen=True):
    """`news_least`: the share of news below which copies are left out; `probe`: for each random copy that R-C33 has,
    how often another router is sent one all the same, so that a change shows. `more_here`: further random copies of
    what is published here. `weight`, `pair_weight`: how much one copy changes the share of its topic, and of its pair
    of routers. `pairs_max`: pairs of routers that are remembered of one topic, `topics_max`: topics in which copies are
    left out; beyond either, the first is forgotten."""

    news_least: float = 0.35
    more_here: int = 6
    probe: float = 0.06
    weight: float = 0.1
    pair_weight: float = 0.3
    pairs_max: int = 128
    topics_max: int = 512


class _Shares(Struct, eq=False):
    """The shares of news in one topic, by the way in which messages come, and by pairs of routers; `nearest`: its first
    neighbours on each side."""

    nearest: tuple[Neighbour, ...]
    of: dict[Came, float] = field(default_factory=dict)
    pairs: dict[tuple[PublicKey | None, PublicKey], float] = field(default_factory=dict)


class RandomCopies:
    """The shares of all topics. A topic without an entry sends all random copies."""

    def __init__(self, chance: Chance, limits: RandomCopiesLimits | None = None) -> None:
        self._chance = chance
        self._limits = limits or RandomCopiesLimits()
        self._topics: dict[PublicKey, _Shares] = {}

    def __repr__(self) -> str:
        return f"<random copies: measured in {len(self._topics)} topics>"

    def share(self, group: PublicKey, came: Came, sender: PublicKey | None, to: PublicKey) -> float:
        """Return the share of news that is expected of a copy to a router of a message that came so."""
        shares = self._topics.get(group)
        return 1.0 if shares is None else shares.pairs.get((sender, to), shares.of.get(came, 1.0))

    def is_measured(self, topic: Topic) -> bool:
        """Whether copies in a topic have been found to be no news, and its first neighbours are those of then."""
        shares = self._topics.get(topic.group)
        if shares is not None and shares.nearest != nearest(topic):
            self.forget(topic.group)
            return False
        return shares is not None and not topic.others

    def choose(
        self, topic: Topic, came: Came, sender: PublicKey | None, order: Sequence[Neighbour], count: int
    ) -> list[Neighbour]:
        """Return the routers that are sent a random copy: of these, in this order, the first `count` for which it is
        likely to be news, and sometimes another in place of one.

        What is published here goes to more, if to any: the first copies of a message are news nearly everywhere."""
        limits, shares = self._limits, self._topics[topic.group]
        more, expected = limits.more_here if count and came is Came.HERE else 0, shares.of.get(came, 1.0)
        likely = [one for one in order if shares.pairs.get((sender, one.router), expected) >= limits.news_least]
        found = likely[: count + more]
        for at in range(count):
            rest = [one for one in order if one not in found]
            if rest and self._chance.random() < limits.probe:
                found[at : at + 1] = rest[:1]  # in place of one, or in addition where there is none
        return found

    def ended(self, topic: Topic, came: Came, sender: PublicKey | None, to: PublicKey, *, was_known: bool) -> None:
        """Record that a router has taken a random copy, and whether it had the message already."""
        if topic.others:
            return
        limits, news = self._limits, 0.0 if was_known else 1.0
        shares = self._topics.get(topic.group)
        if shares is None:
            if not was_known:
                return
            while len(self._topics) >= limits.topics_max:
                del self._topics[next(iter(self._topics))]
            shares = self._topics[topic.group] = _Shares(nearest(topic))
        expected = shares.of.get(came, 1.0)
        share = shares.pairs.pop((sender, to), expected)
        while len(shares.pairs) >= limits.pairs_max:
            del shares.pairs[next(iter(shares.pairs))]
        shares.pairs[sender, to] = share + limits.pair_weight * (news - share)
        shares.of[came] = expected + limits.weight * (news - expected)

    def forget(self, group: PublicKey) -> None:
        """Send all random copies of a topic again, as a router did not take one, or forget a topic that was left."""
        self._topics.pop(group, None)


def came_by(topic: Topic, sender: PublicKey | None, *, is_member: bool) -> Came:
    """Return how a message came from `sender`; see `targets`."""
    if sender is None or not is_member:
        return Came.HERE
    return Came.ALONG_THE_RING if any(one.router == sender for one in nearest(topic)) else Came.AT_RANDOM


def nearest(topic: Topic) -> tuple[Neighbour, ...]:
    """Return the first live neighbour on each side of the ring."""
    return (*topic.after[:1], *topic.before[:1])
