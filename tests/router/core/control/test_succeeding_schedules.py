"""A neighbour whose key is followed again and again, among messages, settlings, crashes and returns in random order:
each message reaches it once, and ends by the key that it was owed to."""

from __future__ import annotations

from collections import Counter

import pytest
from rigs.inviting import House
from rigs.plain_store import Disk
from samples.core import ALICE, GROUP
from test_renewing import Home
from test_renewing_schedules import KEYS, App
from test_succeeding import RIGHTS, chain

from router.core.log.events import Accepted, Outward
from router.core.neighbours.directory import Neighbour
from router.core.wire.succession import CHAIN_MAX


class Edge(App):
    """An edge that gets another key while it is away, up to five times before it comes again."""

    followed = 0

    def _opened(self, disk: Disk) -> Home:
        known = Neighbour(bytes(KEYS[0].public), "edge", RIGHTS)
        found = Home.__new__(Home)
        House.__init__(found, known, disk=disk)
        return found

    def _linked(self) -> int:
        was = chain(*KEYS[: self.at + 1])
        return self.router.link(self.key.public, role="router", was=was, messages=5)

    def renew(self) -> None:
        if self.at + 1 < len(KEYS) and self.at - self.followed < CHAIN_MAX:
            self.go()
            self.at += 1

    def come(self) -> None:
        if not self.is_up():
            self.link = self._linked()
            if self.at > self.followed:
                assert not self.is_up(), "the first link carries the statements"
                self.followed = self.at


@pytest.mark.parametrize("seed", range(4))
def test_each_message_reaches_it_once_and_ends_by_the_key_that_it_was_owed_to(seed: int) -> None:
    edge = Edge(seed)
    acts = [edge.write] * 4 + [edge.settle, edge.come] * 2 + [edge.renew, edge.go, edge.crash]
    for _ in range(80):
        edge.random.choice(acts)()
        if edge.random.random() < 0.3:
            edge.check()
    edge.router.cycle()
    edge.finish()
    owed: Counter[tuple[int, bytes]] = Counter()
    ended: Counter[tuple[int, bytes]] = Counter()
    for one in edge.events:
        if isinstance(one, Accepted) and one.signer in (ALICE.public, GROUP.public):
            owed.update((one.first + at, key) for at in range(len(one.ids) // 32) for key in one.recipients)
        if isinstance(one, Outward) and one.event == "acked":
            ended.update((first + at, one.recipient) for first, count in one.ranges for at in range(count))
    assert owed == ended and set(owed.values()) == {1} and edge.followed > 1
    assert not edge.router.disk.owed and not edge.router.router.queues.held
