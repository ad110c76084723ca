"""Requests as a script makes them, one connection each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import h11
import trio


class NoAnswer(Exception):
    """The connection ended before a whole answer came; whether it was heard, is not known."""


class Got(NamedTuple):
    """An answer."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ScriptClient:
    """Asks one door. `token`: what it may do there, "" for nothing of its own."""

    def __init__(self, port: int, token: str = "") -> None:
        self._port = port
        self._token = token

    def __repr__(self) -> str:
        return f"<script that asks port {self._port}>"

    async def ask(self, path: str, body: bytes | None = None, **headers: str) -> Got:
        """Return the answer to a GET, or with a body to a POST. Raises `NoAnswer`."""
        status, parts = 0, list[bytes]()
        async for event in self._conversation(path, body, headers):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
        return Got(status, b"".join(parts))

    async def lines(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of an answer without an end, as they come. Raises `NoAnswer`."""
        rest = b""
        async for event in self._conversation(path, None, {}):
            if isinstance(event, h11.Data):
                *whole, rest = (rest + bytes(event.data)).split(b"\n")
                for line in whole:
                    yield json.loads(line)

    async def _conversation(self, path: str, body: bytes | None, more: dict[str, str]) -> AsyncIterator[h11.Event]:
        http = h11.Connection(h11.CLIENT)
        headers = [("Host", f"127.0.0.1:{self._port}"), ("Connection", "close")]
        headers += [(name.replace("_", "-"), value) for name, value in more.items()]
        headers += [("Authorization", f"Bearer {self._token}")] if self._token else []
        headers += [("Content-Length", str(len(body)))] if body is not None else []
        asked = http.send(h11.Request(method="GET" if body is None else "POST", target=path, headers=headers))
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
                await stream.send_all((asked or b"") + (http.send(h11.Data(data=body or b"")) or b""))
                http.send(h11.EndOfMessage())
                while not isinstance(event := http.next_event(), h11.EndOfMessage):
                    if event is h11.NEED_DATA:
                        http.receive_data(await stream.receive_some())
                    elif isinstance(event, h11.ConnectionClosed):
                        raise NoAnswer("the connection was closed")
                    elif isinstance(event, h11.Event):
                        yield event
        except (OSError, trio.BrokenResourceError, h11.RemoteProtocolError) as error:
            raise NoAnswer(str(error)) from None
