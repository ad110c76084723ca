"""A web side beside a CAPD pool, both rules without a node: what one sends reaches the other at once, unless cut."""

from __future__ import annotations

import json
from itertools import count
from random import Random
from typing import Any

import msgspec
from samples.capd import posted
from samples.capd_host import POOL, Host

from rigs.web_sides import KEY, WebSide, body_of, request, status_of
from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.http import FoundOverHttp, HttpSetup
from services.capd.core import messages as m
from services.capd.core.limits import Standing
from services.capd.core.message import CapdMessage
from services.capd.core.over_http.forms import shown
from services.capd.http import CapdOverHttp
from services.capd.settings import Settings
from services.capd.solve_job import solve


class Said(msgspec.Struct, frozen=True):
    """An answer over HTTP: its status, its head, and its JSON."""

    status: int
    head: str
    value: Any


class WebPool:
    """The web side `side`, and the pool `host` that it asks; `is_cut`: what the web side sends is lost."""

    def __init__(self, origins: tuple[str, ...] = (), **settings: Any) -> None:
        self.host = Host(Settings(**settings))
        self.over_http = CapdOverHttp(HttpSetup("capd", POOL, self.host.settings, Random(1)))
        self.side = WebSide(services=[FoundOverHttp("capd", POOL, self.over_http)], origins=origins)
        self.host.now = self.side.now
        self.is_cut = False
        self._seen = 0
        self._ids = count(1)

    def pass_on(self) -> None:
        """Carry what the web side has sent to the pool, and its answers back, until nothing is left."""
        while self._seen < len(self.side.done):
            deed = self.side.done[self._seen]
            self._seen += 1
            if isinstance(deed, c.Send) and deed.to == POOL and not self.is_cut:
                follows = self.host.say(deed.body, KEY)
                self.tell(follows)
                for one in follows:
                    if isinstance(one, c.Refuse):
                        assert isinstance(one.reason, Reason)
                        self.side.hear(c.HopOutcome(deed.tag, MessageId(bytes(32)), POOL, "refused", one.reason))
            elif isinstance(deed, c.Compute):
                self.side.hear(c.Computed(deed.tag, solve(deed.argument)))

    def tell(self, deeds: list[c.Deed]) -> None:
        """Carry what the pool has sent to the web side."""
        for deed in deeds:
            if isinstance(deed, c.Send) and deed.to == KEY:
                self.side.hear(c.Message(MessageId(next(self._ids).to_bytes(32)), deed.body, source=POOL))

    def post_elsewhere(self, message: CapdMessage) -> None:
        """Let another app post a message."""
        self.tell(self.host.say(m.encode_message(m.Post(1, message.encoded()))))
        self.pass_on()

    def pass_time(self, seconds: float) -> None:
        self.side.tick(seconds)
        self.host.now = self.side.now
        self.pass_on()

    def begin(self, path: str, *headers: str, address: str = "192.0.2.1:4000") -> str:
        """Ask for something whose answer has no end; return the name of the connection."""
        peer = self.side.open(address=address)
        self.side.say(peer, request(f"/capd{path}", *headers))
        self.pass_on()
        return peer

    def ask(
        self, path: str, *headers: str, method: str = "GET", body: object = None, address: str = "192.0.2.1:4000"
    ) -> Said:
        """Return the answer to a request. `body`: bytes as they are, or else a value in JSON."""
        peer = self.side.open(address=address)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self.side.say(peer, request(f"/capd{path}", *headers, method=method, body=data))
        self.pass_on()
        found = self.answer(peer)
        self.side.say(peer, b"")
        return found

    def answer(self, peer: str) -> Said:
        whole = self.side.written.get(peer, b"")
        text = body_of(whole)
        value = json.loads(text) if text and b"json\r\n" in whole else text.decode()
        return Said(status_of(whole), whole.partition(b"\r\n\r\n")[0].decode(), value)

    def message(self, data: bytes, priority: float = 2.5, **more: Any) -> CapdMessage:
        """Return a message that was made now."""
        return posted(data, priority, int(self.side.now.wall_s), **more)


def as_posted(message: CapdMessage) -> dict[str, Any]:
    """Return a message as it is posted."""
    found = shown(message, Standing.RELAYED, message.create_time)
    return {
        name: found[name]
        for name in ("data", "created", "difficultyBits", "nonce", "expiration", "rescindHash")
        if name in found
    }
