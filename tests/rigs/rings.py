"""Many overlays in one process, whose meetings and exchanges succeed or fail at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from router.core.wire.crypto import PublicKey
from services.pubsub.core.known import Known, Neighbour, Topic
from services.pubsub.core.rings.overlay import Deed, ExchangeRings, MeetWith, Overlay, OverlayLimits

PERIOD_S = 20.0
"""Longer than any period, so that one begins at every node."""


class Member:
    """A node: its keys, its knowledge, and its overlay."""

    def __init__(self, number: int, groups: Iterable[PublicKey], chance: Random, limits: OverlayLimits) -> None:
        self.me = Neighbour(PublicKey(chance.randbytes(32)), PublicKey(chance.randbytes(32)))
        self.number = number
        self.is_up = True
        self.known = Known(self.me.service)
        self.overlay = Overlay(self.known, self.me.router, chance, limits)
        for group in groups:
            self.want(group)

    def want(self, group: PublicKey) -> None:
        self.known.topics[group] = Topic(group)
        self.overlay.begin(group)


class Rings:
    """The nodes, and the messages between them."""

    def __init__(self, wants: Sequence[Iterable[PublicKey]], seed: int, limits: OverlayLimits | None = None) -> None:
        self.chance = Random(seed)
        self.now_s = 0.0
        self.members = [Member(at, one, self.chance, limits or OverlayLimits()) for at, one in enumerate(wants)]
        self.by_router = {one.me.router: one for one in self.members}
        self.questions = self.meetings = 0
        self.meetings_in_vain = 0

    def period(self) -> None:
        """Begin a period at each node that is up, in random order."""
        up = [one for one in self.members if one.is_up]
        self.chance.shuffle(up)
        for one in up:
            self.carry_out(one, one.overlay.tick(self.now_s))
        self.now_s += PERIOD_S

    def carry_out(self, one: Member, deeds: Iterable[Deed]) -> None:
        for deed in deeds:
            match deed:
                case MeetWith(candidate):
                    self.meet(one, candidate.router)
                case ExchangeRings(to, rings):
                    self.questions += 1
                    other = self.by_router.get(to.router)
                    if other is None or not other.is_up:
                        one.overlay.absent(to.router, self.now_s)
                        self.carry_out(one, one.overlay.tick(self.now_s))
                        continue
                    reply = other.overlay.hear_question(one.me, rings)
                    if reply is not None:
                        one.overlay.hear_answer(other.me, reply.rings)

    def meet(self, one: Member, router: PublicKey) -> None:
        self.meetings += 1
        other = self.by_router.get(router)
        if other is None or not other.is_up:
            self.meetings_in_vain += 1
            one.overlay.absent(router, self.now_s)
            return
        shared = {group: self.chance.randbytes(16) for group in one.known.topics.keys() & other.known.topics.keys()}
        for mine, theirs in ((one, other), (other, one)):
            mine.known.share(theirs.me.router, shared)
            mine.overlay.met(theirs.me, self.now_s)

    def wrong(self, group: PublicKey) -> int:
        """Return how many links to the next live member, in either direction, are not those of the ring."""
        live = [one for one in self.members if one.is_up and group in one.known.topics]
        live.sort(key=lambda one: one.me.place)
        count = 0
        for at, one in enumerate(live if len(live) > 1 else ()):
            topic = one.known.topics[group]
            following, preceding = live[(at + 1) % len(live)].me, live[at - 1].me
            count += topic.after[:1] != (following,)
            count += topic.before[:1] != (preceding,)
        return count

    def periods_until_right(self, group: PublicKey, most: int) -> int:
        for count in range(most):
            if not self.wrong(group):
                return count
            self.period()
        return most
