"""A CAPD pool's rules under a host that keeps everything in memory, and its askers."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.service import contract as c
from samples.capd import BORN
from services.capd.core import messages as m
from services.capd.rules import CapdPool
from services.capd.settings import Settings

POOL = SigningKey(bytes(32)).public
ASKERS = [SigningKey(bytes([number]) * 32).public for number in range(1, 4)]


class Host:
    """Runs a pool's rules and keeps its rows; `crash` starts the rules anew from these rows."""

    kind: type[CapdPool] = CapdPool
    key = POOL
    seed = 1

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.now = c.Now(float(BORN), 1000.0)
        self.kept: dict[bytes, bytes] = {}
        self.notes: list[c.LogEvent] = []
        self.matches: list[tuple[PublicKey, bytes, int]] = []
        self._numbers = count(1)
        self.crash()

    def crash(self) -> None:
        self.rules = self.kind(c.Setup("capd", self.key, self.settings, self.kept, Random(self.seed)))
        self.hear(c.Started(POOL))

    def pass_time(self, seconds: float) -> list[c.Deed]:
        self.now = c.Now(self.now.wall_s + seconds, self.now.mono_s + seconds)
        return self.hear(c.Tick())

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        """Pass an event to the rules, then let them settle; carry out and return the deeds."""
        return [*self.keep(self.rules.hear(heard, self.now)), *self.keep(self.rules.settled(self.now))]

    def keep(self, deeds: list[c.Deed]) -> list[c.Deed]:
        """Carry out the deeds: keep rows, and record log events and matches."""
        for deed in deeds:
            if isinstance(deed, c.Put):
                self.kept.pop(deed.key, None) if deed.value is None else self.kept.update({deed.key: deed.value})
            elif isinstance(deed, c.LogEvent):
                self.notes.append(deed)
            elif isinstance(deed, c.Send) and isinstance(said := m.decode_message(deed.body), m.Match):
                self.matches.append((deed.to, said.message, deed.ttl_s))
        return deeds

    def say(self, body: bytes, asker: PublicKey = ASKERS[0]) -> list[c.Deed]:
        """Pass a unicast to the rules, and return the deeds."""
        number = next(self._numbers)
        return self.hear(c.Message(MessageId(number.to_bytes(32)), body, source=asker))

    def ask(self, request: m.Request, asker: PublicKey = ASKERS[0]) -> Any:
        """Return the answer to a request."""
        deeds = self.say(m.encode_message(request), asker)
        [answer] = [
            said
            for said in (m.decode_message(one.body) for one in deeds if isinstance(one, c.Send) and one.to == asker)
            if not isinstance(said, m.Match)
        ]
        return answer

    def events(self, event: str) -> list[c.LogEvent]:
        return [one for one in self.notes if one.event == event]
