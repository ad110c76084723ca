"""Read the other end's messages in every protocol, one by one and as encoded, in turn or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple

import trio

from router.core.link.machine import Agency, RemoteProtocolError
from router.core.wire.codec import Malformed
from services.dmq.core.protocols.mux import Demultiplexer, Inbox

READ_BYTES = 1 << 16


class Said(NamedTuple):
    """A message as encoded; or with `fault`, why the bytes are no message."""

    number: int
    wire: bytes
    fault: str = ""


class Ended(Exception):
    """The other end has closed the connection."""


class Quiet(Exception):
    """No whole message has come in time."""


class Listener:
    """Reads messages from a stream; `bytes_max` of each protocol."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        by: Agency,
        bytes_max: Mapping[int, int],
        loose: Mapping[int, bytes] = {},
        *,
        is_duplex: bool = False,
    ) -> None:
        """`by`: the side that speaks; `loose`: how messages of a protocol begin whose list is shorter than it says.
        `is_duplex`: it may begin protocols of its own as well, which are skipped."""
        self.stream = stream
        self._limits = bytes_max
        self._by = by
        sides = {by, Agency.INITIATOR} if is_duplex else {by}
        self._demultiplexer = Demultiplexer((number, side) for number in bytes_max for side in sides)
        self._inboxes = {one: Inbox(2 * most + (1 << 18), loose.get(one, b"")) for one, most in bytes_max.items()}
        self._heard: deque[Said] = deque()

    def __repr__(self) -> str:
        return f"<Listener with {len(self._heard)} messages>"

    async def next(self, within_s: float = inf) -> Said:
        """Return the next message; raise `Ended` or `Quiet`."""
        with trio.move_on_after(within_s):
            while not self._heard:
                self._hear(await self._read())
            return self._heard.popleft()
        raise Quiet

    async def _read(self) -> bytes:
        try:
            data = await self.stream.receive_some(READ_BYTES)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise Ended
        return bytes(data)

    def _hear(self, data: bytes) -> None:
        try:
            for (number, side), payload in self._demultiplexer.feed(data, 0.0):
                if side is not self._by:
                    continue
                self._inboxes[number].add(payload)
                self._heard.extend(self._messages(number))
        except RemoteProtocolError as error:
            self._heard.append(Said(0, b"", error.text))
        except Malformed as error:
            self._heard.append(Said(0, b"", str(error)))

    def _messages(self, number: int) -> Iterator[Said]:
        while (wire := self._inboxes[number].take(self._limits[number])) is not None:
            yield Said(number, wire)
