"""Renewals among messages, settlings, crashes and returns, in random order: each message ends once, by the key that it
was owed to."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from rigs.inviting import House
from rigs.plain_store import Disk
from samples.core import ALICE, GROUP
from test_renewing import Home, letter, news, statement

from router.core.log.events import Accepted, Event, Outward
from router.core.wire.crypto import SigningKey

KEYS = [SigningKey(bytes((n,)) * 32) for n in range(150, 170)]


class App:
    """An app whose key is renewed again and again, at a router that crashes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.events: list[Event] = []
        self.at = 0
        self.number = 0
        self.got: Counter[bytes] = Counter()
        self.written: list[bytes] = []
        self.router = self._opened(Disk())
        self.link = self._linked()
        self.router.join(self.link, KEYS[0])

    def _linked(self) -> int:
        return self.router.link(self.key.public, messages=5)

    def _opened(self, disk: Disk) -> Home:
        found = Home.__new__(Home)
        House.__init__(found, disk=disk)
        return found

    @property
    def key(self) -> SigningKey:
        return KEYS[self.at]

    def is_up(self) -> bool:
        return self.router.router.links.get(self.link) is not None

    def write(self) -> None:
        wires = []
        for _ in range(self.random.randrange(1, 4)):
            self.number += 1
            to = self.random.choice(KEYS[: self.at + 1])
            wires.append(news(self.number) if self.random.random() < 0.5 else letter(self.number, to=to))
        self.router.bring(self.router.operator, *wires)
        self.written += wires
        if self.random.random() < 0.7:
            self.router.cycle()

    def renew(self) -> None:
        if self.at + 1 < len(KEYS):
            assert "error" not in self.router.order("renew", statement(self.key, KEYS[self.at + 1]))
            self.at += 1
            assert not self.is_up()

    def come(self) -> None:
        if not self.is_up():
            self.link = self._linked()

    def settle(self) -> None:
        if self.is_up():
            self.got.update(self.router.handed(self.link))
            self.router.settle(self.link)

    def go(self) -> None:
        if self.is_up():
            self.router.down(self.link)

    def crash(self) -> None:
        """Begin anew with what is on the disk; reads that no cycle has decided come again."""
        self.router.cycle()
        self.events += self.router.events
        self.router = self._opened(self.router.disk)
        self.link = -1

    def check(self) -> None:
        self.router.cycle()
        queues = self.router.router.queues.by_recipient
        totals: Counter[bytes] = Counter()
        for one in self.router.store.recover(self.router.router.directory.me).backlog:
            totals[one.recipient] += one.messages
        assert {key: one.total.messages for key, one in queues.items() if one.total.messages} == dict(totals)

    def finish(self) -> None:
        for _ in range(200):
            self.come()
            self.settle()
            if not self.router.disk.owed:
                break
        self.events += self.router.events


@pytest.mark.parametrize("seed", range(6))
def test_each_message_is_handed_over_and_ends_once_by_the_key_that_it_was_owed_to(seed: int) -> None:
    app = App(seed)
    acts = [app.write] * 4 + [app.settle, app.come] * 2 + [app.renew, app.go, app.crash]
    for _ in range(80):
        app.random.choice(acts)()
        if app.random.random() < 0.3:
            app.check()
    app.router.cycle()
    app.finish()
    owed: Counter[tuple[int, bytes]] = Counter()
    for one in app.events:
        if isinstance(one, Accepted) and one.signer in (ALICE.public, GROUP.public):
            owed.update((one.first + at, key) for at in range(len(one.ids) // 32) for key in one.recipients)
    ended: Counter[tuple[int, bytes]] = Counter()
    for event in app.events:
        if isinstance(event, Outward) and event.event == "delivered":
            ended.update((first + at, event.recipient) for first, count in event.ranges for at in range(count))
    assert owed == ended and set(owed.values()) == {1}
    assert set(app.got) == set(app.written) and app.at > 0
    assert not app.router.disk.owed and not app.router.router.queues.held
