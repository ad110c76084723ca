"""A router, its store and its log, answering questions about messages step by step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

from samples.logs import KEY
from samples.stores import WALL_S, parcel

from router.core.log.events import Accepted, Outward
from router.core.neighbours.directory import Directory, Neighbour
from router.core.router import Router
from router.core.routing.effects import Changes, Finished, SendOwn
from router.core.routing.limits import CoreLimits
from router.core.routing.recovered import Recovered
from router.core.wire.admin import Answer, Inquiry, decode_inquiry
from router.core.wire.link_items import Hello
from router.core.wire.message import Unicast, open_message
from router.core.wire.now import Now
from router.disk.limits import LogLimits, StoreLimits
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.store.store import Store
from router.why.questions import (
    ASKED_MAX,
    Fates,
)
from router.why.steps import Find, News, Remind

APP, SECOND_APP, ASKER_LINK, FIRST_LINK = 1, 2, 3, 10
OWNER, ASKER, SIGNER = (bytes([number]) * 32 for number in (250, 251, 252))
RECIPIENTS = [bytes([number]) * 32 for number in range(1, ASKED_MAX + 3)]
HELLO = Hello((1,), "router", bytes(8), True, 1 << 20, 4096, 1 << 20, (), bytes(16))
S = 10**9


class Here:
    """A router, its store and its log; searches run when `cycle` needs their results. `told`: the answers given, by
    link; `asked`: the inquiries sent to others."""

    def __init__(self, path: Path) -> None:
        self.seconds = 1.0
        self.store = Store(path / "store", StoreLimits(synced=False), bytes(16))
        self.store.recover(KEY.public)
        directory = Directory(KEY.public, accept_strangers=True)
        directory.replace_neighbours([Neighbour(ASKER, "asker", frozenset({"why"}))])
        self.router = Router(KEY, directory, CoreLimits(), Recovered(), self.now())
        self.segments = Segments(path / "log", KEY, LogLimits(segment_bytes=1))
        self.book = Logbook(self.segments, self.store, 1e9, 1 << 40)
        self.names: dict[bytes, str] = {}
        self.fates = Fates(self.book, dict, 86_400, lambda: self.names)
        self.told: dict[int, list[dict[str, Any]]] = {}
        self.asked: list[tuple[int, Inquiry]] = []
        self.identity = ""
        self._read: Counter[int] = Counter()
        self._news: list[News] = []
        self._searches: list[Find] = []
        self._reminders: list[tuple[float, News]] = []

    def now(self) -> Now:
        return Now(WALL_S * S, int(self.seconds * S))

    def hear(self, heard: News) -> None:
        self._news.append(heard)

    def ask(self, link: int, argument: str, service: bytes | None = None) -> None:
        self._do(self.fates.ask(self, link, argument, service, self.now()))

    def asked_by(self, link: int, neighbour: bytes, argument: str) -> None:
        self._do(self.fates.asked(self, link, neighbour, argument, self.now()))

    def answered(self, neighbour: bytes, text: bytes) -> None:
        self._do(self.fates.answered(self, neighbour, text, self.now()))

    def _do(self, deeds: Iterable[Find | Remind]) -> None:
        for deed in deeds:
            if isinstance(deed, Find):
                self._searches.append(deed)
            else:
                self._reminders.append((self.seconds + deed.seconds, deed.news))
        self._listen()

    def search(self) -> None:
        """Run the pending searches, without drawing conclusions from their results yet."""
        self._news += [one.find() for one in self._searches]
        self._searches.clear()

    def cycle(self, news: int = 1) -> None:
        """Run until `news` results were heard."""
        while news > 0:
            self.search()
            assert self._news, "nothing more comes"
            heard, self._news = self._news, []
            for one in heard:
                self._do(self.fates.hear(self, one, self.now()))
            news -= len(heard)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self._news += [news for at, news in self._reminders if at <= self.seconds]
        self._reminders = [one for one in self._reminders if one[0] > self.seconds]

    def _listen(self) -> None:
        for effect in self.router.take(self.now()).effects:
            if isinstance(effect, SendOwn):
                message = open_message(effect.wire)
                assert isinstance(message, Unicast)
                said = decode_inquiry(message.body)
                if isinstance(said, Answer):
                    self.told.setdefault(effect.link, []).append(json.loads(said.text))
                else:
                    self.asked.append((effect.link, said))

    def answer(self, link: int = APP) -> dict[str, Any]:
        """Return the link's next answer that was not returned before."""
        while len(self.told.get(link, ())) == self._read[link]:
            self.cycle()
        self._read[link] += 1
        return self.told[link][self._read[link] - 1]

    def link(self, number: int, key: bytes) -> None:
        assert self.router.link_up(number, key, False, HELLO, self.now()) is not None
        self.router.take(self.now())

    def commit(self, changes: Changes) -> None:
        applied = self.store.apply(changes, WALL_S)
        self.store.commit()
        assert applied.logged is not None
        self.book.committed(applied.logged, self.now())

    def accept(self, recipients: list[bytes], ttl_s: int = 60) -> None:
        """Accept one message, with the arrival number 1."""
        one = replace(parcel(Random(1), 1, WALL_S, count=1), recipients=tuple(recipients), neighbour=ASKER)
        word, expiry = pack("<I", ttl_s), pack("<I", one.expiries[0])
        event = Accepted(
            WALL_S * S, 1, 1, 1, SIGNER, None, ASKER, 1, one.recipients, one.ids, word, word, expiry
        )  # fmt: skip
        self.commit(Changes(parcels=[one], events=[event]))
        self.identity = one.ids.hex()
        self.size = one.size(0, 1)

    def end(self, recipient: bytes, event: str = "delivered") -> None:
        said = Outward(WALL_S * S, 6, event, recipient, 1, ((1, 1),), None, 0, 1, 0, 1)
        self.commit(Changes(finished=[Finished(recipient, 1, 0, 1, self.size)], events=[said]))

    def lose(self, recipient: bytes) -> None:
        """Simulate a fault: the message leaves the queue, and no event says so."""
        said = Outward(WALL_S * S, 6, "delivered", OWNER, 1, ((9, 1),), None, 0, 1, 0, 9)
        self.commit(Changes(finished=[Finished(recipient, 1, 0, 1, self.size)], events=[said]))


@contextmanager
def here(path: Path, *, is_behind: bool = False) -> Iterator[Here]:
    found = Here(path)
    for link, key in ((APP, OWNER), (SECOND_APP, SIGNER), (ASKER_LINK, ASKER)):
        found.link(link, key)
    if not is_behind:
        found.book.sealed(found.now())
    try:
        yield found
    finally:
        found.book.close()
        found.store.close()
