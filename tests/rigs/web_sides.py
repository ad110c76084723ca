"""The rules of a web side without a node: bytes in, bytes out, and a clock that the test moves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import count
from random import Random
from typing import Any

from router import SigningKey
from router.service import contract as c
from router.service.http import FoundOverHttp
from services.web.rules import Web
from services.web.settings import Settings

KEY = SigningKey(b"w" * 32).public
GROUP = "ab" * 32


class WebSide:
    """A web side, with what it keeps and what it has done besides writing."""

    def __init__(
        self,
        kept: dict[bytes, bytes] | None = None,
        services: Sequence[FoundOverHttp] = (),
        at_s: float = 1000.0,
        **settings: Any,
    ) -> None:
        self.kept = {} if kept is None else kept
        self.at_s = at_s
        self.web = Web(c.Setup("web", KEY, Settings(**settings), self.kept, Random(1), lambda: services))
        self.written: dict[str, bytes] = {}
        self.closed: set[str] = set()
        self.done: list[c.Deed] = []
        self._numbers = count(1)
        self.hear(c.Started(KEY))

    @property
    def now(self) -> c.Now:
        return c.Now(1_800_000_000 + self.at_s, self.at_s)

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        """Let the rules hear this; return what they do besides writing and waking."""
        found = self.web.hear(heard, self.now)
        done: list[c.Deed] = []
        for deed in found:
            match deed:
                case c.Write(_, peer, b""):
                    self.closed.add(peer)
                case c.Write(_, peer, data):
                    assert peer not in self.closed
                    self.written[peer] = self.written.get(peer, b"") + data
                case c.Put(key, None):
                    self.kept.pop(key, None)
                case c.Put(key, value):
                    assert value is not None
                    self.kept[key] = value
                case c.Wake():
                    pass
                case _:
                    done.append(deed)
        self.done += done
        return done

    def tick(self, after_s: float) -> list[c.Deed]:
        self.at_s += after_s
        return self.hear(c.Tick())

    def open(self, door: str = "listen", address: str = "192.0.2.1:4000") -> str:
        peer = str(next(self._numbers))
        self.hear(c.Opened(door, peer, address))
        return peer

    def say(self, peer: str, *parts: bytes, door: str = "listen") -> bytes:
        """Let a client say this, unless it is cut off meanwhile; return what it gets for it."""
        before = len(self.written.get(peer, b""))
        for data in parts:
            if peer not in self.closed:
                self.hear(c.Came(door, peer, data))
        return self.written.get(peer, b"")[before:]

    def ask(self, request: bytes, *, door: str = "listen", address: str = "192.0.2.1:4000") -> bytes:
        """Return the answer to a request over a connection of its own."""
        return self.say(self.open(door, address), request, door=door)

    def operator(self, word: str, argument: str = "") -> Any:
        """Return the answer to the operator's question."""
        found = self.hear(c.Asked(next(self._numbers), word, argument))
        return next(deed.value for deed in found if isinstance(deed, c.Answer))


def request(
    path: str = "/", *headers: str, method: str = "GET", host: str = "127.0.0.1:4180", body: bytes | None = None
) -> bytes:
    """Return a request of HTTP/1.1; headers as "Name: value"."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n" + (body or b"")


def each_byte(data: bytes) -> Iterable[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


# -- scripts -----------------------------------------------------------------------------------------------


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


def token_of(side: WebSide, **wish: Any) -> str:
    """Return a new token, which may publish in and read the group "friends" unless the wish is another."""
    whole = {"name": "script", "publish": {"friends": GROUP}, "read": {"friends": GROUP}, **wish}
    made = side.operator("token", json.dumps(whole))
    assert "error" not in made, made
    return str(made["token"])


def post(token: str, body: bytes = b"disk full", *headers: str, group: str = "friends") -> bytes:
    return request(f"/groups/{group}", bearer(token), *headers, method="POST", body=body)


def published(side: WebSide) -> list[c.Publish]:
    return [deed for deed in side.done if isinstance(deed, c.Publish)]
