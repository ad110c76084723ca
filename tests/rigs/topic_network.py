"""Nodes of one topic that forward and repair, on simulated time: some dead, some silent, on lossy links."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from random import Random

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.known import Neighbour, Topic
from services.pubsub.core.sending import forwarding as f
from services.pubsub.core.sending import repair as r

GROUP = PublicKey(b"\x07" * 32)
DELAY_S = 0.05
EVENTS_MAX = 200_000


def key_of(number: int) -> PublicKey:
    return PublicKey(number.to_bytes(32, "big"))


def message_of(number: int) -> MessageId:
    return MessageId(b"\xff" + number.to_bytes(31, "big"))


def neighbour(number: int) -> Neighbour:
    return Neighbour(key_of(number), key_of(number + 1_000_000))


def neighbours(*numbers: int) -> tuple[Neighbour, ...]:
    return tuple(map(neighbour, numbers))


def topic(after: Iterable[int] = (), before: Iterable[int] = (), others: Iterable[int] = ()) -> Topic:
    """Return a topic with these live neighbours."""
    made = Topic(GROUP)
    made.show(neighbours(*after), neighbours(*before), neighbours(*others))
    return made


def ring(count: int, chance: Random, near: int = 10, far: int = 10) -> list[Topic]:
    """Return the views of all nodes of a correct ring: `near` on each side, and `far` others at random."""
    found = []
    for number in range(count):
        after = [(number + step) % count for step in range(1, min(near, count - 1) + 1)]
        before = [(number - step) % count for step in range(1, min(near, count - 1) + 1)]
        rest = [one for one in range(count) if one != number and one not in after and one not in before]
        found.append(topic(after, before, chance.sample(rest, min(far, len(rest)))))
    return found


class TopicNetwork:
    """`dead` nodes take nothing; `droppers` take custody and do nothing; a share `loss` of all copies is lost
    unnoticed. `copies`: how many copies of a message each node received; `asked`: number of PULLs; `last_s`: when a
    node last got a message for the first time."""

    def __init__(
        self,
        topics: Sequence[Topic],
        seed: int,
        *,
        limits: f.ForwardingLimits | None = None,
        repair: r.RepairLimits | None = None,
        dead: Collection[int] = (),
        droppers: Collection[int] = (),
        loss: float = 0.0,
    ) -> None:
        self.chance = Random(seed)
        self.dead, self.droppers, self.loss = dead, droppers, loss
        self.now_s = self.last_s = 0.0
        self.forwardings = [f.Forwarding({GROUP: one}, Random(seed + at), limits) for at, one in enumerate(topics)]
        self.repairs = [r.Repair({GROUP: one}, Random(seed - at), repair) for at, one in enumerate(topics)]
        self.have: list[dict[MessageId, tuple[MessageId, ...]]] = [{} for _ in topics]
        self.copies: Counter[tuple[int, MessageId]] = Counter()
        self.sent: Counter[MessageId] = Counter()
        self.asked = 0
        self._due: list[tuple[float, int, str, int, int, MessageId]] = []
        self._seen: dict[MessageId, tuple[MessageId, ...]] = {}
        self._wires: dict[MessageId, bytes] = {}
        self._wakes: dict[tuple[int, str], float] = {}
        self._planned = 0

    def publish(self, at: int, id: MessageId, seen: tuple[MessageId, ...] = (), wire: bytes = b"wire") -> None:
        self._seen[id], self._wires[id] = seen, wire
        self.have[at][id] = seen
        self.repairs[at].arrived(id, None, self.now_s)
        origin = f.Origin(until_s=1e9)
        self._forward(at, self.forwardings[at].received(id, GROUP, wire, origin, self.now_s))

    def run(self, until_s: float = 1e9) -> None:
        """Carry out everything that is due by then."""
        for _ in range(EVENTS_MAX):
            if not self._due or self._due[0][0] > until_s:
                self.now_s = max(self.now_s, until_s if until_s < 1e9 else self.now_s)
                return
            self.now_s, _, kind, by, to, id = heapq.heappop(self._due)
            self._happen(kind, by, to, id)
        raise AssertionError("this network does not come to rest")

    def reached(self, id: MessageId) -> set[int]:
        return {at for at, messages in enumerate(self.have) if id in messages}

    def _plan(self, after_s: float, kind: str, by: int, to: int, id: MessageId) -> None:
        self._planned += 1
        heapq.heappush(self._due, (self.now_s + after_s, self._planned, kind, by, to, id))

    def _happen(self, kind: str, by: int, to: int, id: MessageId) -> None:
        if kind == "copy" and to not in self.dead:
            self._plan(DELAY_S, "taken", to, by, id)
            if to not in self.droppers and self.chance.random() >= self.loss:
                self._arrive(by, to, id)
        elif kind == "taken":
            self._forward(to, self.forwardings[to].taken(id, key_of(by), self.now_s))
        elif kind == "have" and to not in self.dead and to not in self.droppers:
            self.repairs[to].named([id], GROUP, key_of(by), r.Named.HAVE, self.now_s)
            self._wake(to)
        elif kind == "pull" and id in self.have[to] and to not in self.dead and to not in self.droppers:
            self._plan(DELAY_S, "copy", to, by, id)
        elif kind == "tick":
            self._wakes.pop((to, "tick"), None)
            self._forward(to, self.forwardings[to].tick(self.now_s, self.now_s))
            self._repair(to, self.repairs[to].tick(self.now_s))

    def _arrive(self, by: int, to: int, id: MessageId) -> None:
        self.copies[to, id] += 1
        if id in self.have[to]:
            return
        self.have[to][id] = self._seen[id]
        self.last_s = self.now_s
        self._repair(to, self.repairs[to].arrived(id, key_of(by), self.now_s))
        self.repairs[to].named(self._seen[id], GROUP, key_of(by), r.Named.SEEN, self.now_s)
        origin = f.Origin(key_of(by), is_member=True)
        self._forward(to, self.forwardings[to].received(id, GROUP, self._wires[id], origin, self.now_s))

    def _forward(self, at: int, deeds: Iterable[f.Deed]) -> None:
        for deed in deeds:
            if isinstance(deed, f.SendCopy):
                self.sent[deed.id] += 1
                self._plan(DELAY_S, "copy", at, int.from_bytes(deed.to, "big"), deed.id)
            elif isinstance(deed, f.Announce):
                self._plan(DELAY_S, "have", at, int.from_bytes(deed.to.router, "big"), deed.id)
        self._wake(at)

    def _repair(self, at: int, deeds: Iterable[r.Deed]) -> None:
        for deed in deeds:
            if isinstance(deed, r.AskForMessage):
                self.asked += 1
                self._plan(DELAY_S, "pull", at, int.from_bytes(deed.router, "big"), deed.id)
        self._wake(at)

    def _wake(self, at: int) -> None:
        due_s = min(self.forwardings[at].due_s, self.repairs[at].due_s)
        if due_s < self._wakes.get((at, "tick"), 1e9):
            self._wakes[at, "tick"] = due_s
            self._plan(max(0.0, due_s - self.now_s), "tick", at, at, message_of(0))
