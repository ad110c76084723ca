"""A simulated network: nodes that get one event after the other, on simulated time, with delayed messages.

Every node runs `Sampling` as it ships. A run depends on its seed alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol

from msgspec import Struct

from router.core.wire.crypto import KEY_BYTES, PublicKey
from router.service.contract import Now, Tick, Wake
from services.discovery.core.sampling import (
    Announce,
    Ask,
    Deed,
    Event,
    Question,
    Reply,
    Response,
    Sampling,
    SamplingLimits,
)
from services.discovery.core.view import Advertised, ViewEntry

WALL_S = 1_800_000_000
LIFE_S = 86_400
DELAY_S = (0.01, 0.2)
"""The shortest and the longest delay of a message."""


class SimulatedAdvert(Struct, frozen=True):
    """An advertisement without addresses and signature."""

    key: PublicKey
    rev: int = 1
    exp: int = WALL_S + LIFE_S
    prefix: bytes | None = None


def advert_of(number: int) -> SimulatedAdvert:
    """Return the advertisement of the node with that number, in a public network of its own."""
    raw = number.to_bytes(4, "big")
    return SimulatedAdvert(PublicKey(raw.rjust(KEY_BYTES, b"\0")), prefix=raw)


class Participant(Protocol):
    """A participant: an honest node, or an attacker."""

    def hear(self, event: Event, now: Now) -> list[Deed]:
        """Return the deeds that follow from one event."""


class SimulatedNetwork:
    """Participants by key, and the messages between them.

    `announced`, if given, is called with the nodes that each honest node draws.
    """

    def __init__(self, seed: int, limits: SamplingLimits) -> None:
        self.limits = limits
        self.chance = Random(seed)
        self.honest: dict[PublicKey, Sampling] = {}
        self.announced: Callable[[tuple[Advertised, ...]], None] | None = None
        self._all: dict[PublicKey, Participant] = {}
        self._due: list[tuple[float, int, PublicKey, Event]] = []
        self._said = 0
        self._now_s = 0.0

    def __repr__(self) -> str:
        return f"<network of {len(self._all)} at {self._now_s:.0f} s>"

    def join(self, advert: Advertised, seeds: Iterable[PublicKey]) -> None:
        """Add an honest node that knows these; it begins within the next period."""
        secret = self.chance.randbytes(16)
        self.honest[advert.key] = node = Sampling(advert, seeds, secret, Random(secret), self.limits)
        self.admit(advert.key, node)

    def admit(self, key: PublicKey, participant: Participant) -> None:
        """Add a participant; it begins within the next period."""
        self._all[key] = participant
        self._at(self._now_s + self.chance.random() * self.limits.period_s, key, Tick())

    def vanish(self, keys: Iterable[PublicKey]) -> None:
        """Take these out without a word."""
        for key in keys:
            del self._all[key]
            self.honest.pop(key, None)

    def run(self, cycles: int) -> None:
        """Let that many periods pass."""
        until_s = self._now_s + cycles * self.limits.period_s
        while self._due and self._due[0][0] <= until_s:
            self._now_s, _, key, event = heapq.heappop(self._due)
            participant = self._all.get(key)
            if participant is not None:
                self._carry_out(key, participant.hear(event, Now(WALL_S + self._now_s, self._now_s)))
        self._now_s = until_s

    def _carry_out(self, by: PublicKey, deeds: list[Deed]) -> None:
        for deed in deeds:
            match deed:
                case Wake():
                    self._at(deed.at_s - WALL_S, by, Tick())
                case Ask():
                    self._at(self._now_s + self._delay_s(), deed.to, Question(by, deed.view))
                case Reply():
                    self._at(self._now_s + self._delay_s(), deed.to, Response(by, deed.view))
                case Announce() if self.announced is not None and by in self.honest:
                    self.announced(deed.adverts)

    def _delay_s(self) -> float:
        return self.chance.uniform(*DELAY_S)

    def _at(self, at_s: float, key: PublicKey, event: Event) -> None:
        self._said += 1
        heapq.heappush(self._due, (at_s, self._said, key, event))


class Flooder(Struct, frozen=True):
    """An attacker: asks `asks` random nodes each period, and puts only entries of its own side, with age 0, into views.

    With more `asks` than `targets` it asks some of them several times.
    """

    own: Advertised
    side: tuple[Advertised, ...]
    targets: tuple[PublicKey, ...]
    asks: int
    chance: Random
    limits: SamplingLimits

    def hear(self, event: Event, now: Now) -> list[Deed]:
        """Flood each period, and answer each asker."""
        match event:
            case Tick():
                asked = self.chance.choices(self.targets, k=self.asks)
                return [
                    *(Ask(key, None, (ViewEntry(0, self.own), *self._entries())) for key in asked),
                    Wake(now.wall_s + self.limits.period_s),
                ]
            case Question():
                return [Reply(event.by, event.view[0].advert, (ViewEntry(0, self.own), *self._entries()))]
            case _:
                return []

    def _entries(self) -> list[ViewEntry]:
        count = min(self.limits.shuffle - 1, len(self.side))
        return [ViewEntry(0, one) for one in self.chance.sample(self.side, count)]
