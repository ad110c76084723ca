"""Streams inside one process, for services, tests and simulations: bounded, without the kernel.

The process has one table of listening names; a name is taken while `listen` runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import trio

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.transport.contract import (
    Buffer,
    ConnectFailed,
    Handler,
    InvalidUrl,
    ListenFailed,
    OnRefused,
    StreamBroken,
    TaskStatus,
    after,
    unheard,
)
from router.transport.limits import CONNECTIONS_MAX
from router.transport.stream import CUT, DuplexStream

LOCAL = True  # only this process connects
BUFFER_BYTES_MAX = 1 << 20  # bytes sent and not yet received, per direction; then the sender waits


def check(url: str) -> None:
    """Raise `InvalidUrl` unless this names a listener."""
    memory_name(url)


def memory_name(url: str) -> str:
    """Return the name in `memory://name`."""
    name = after("memory://", url)
    if not name:
        raise InvalidUrl(f"{url!r} lacks a name; write memory://name")
    return name


async def dial(url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> MemoryStream:
    """Return a stream to the listener of that name; the link proves its key, so `expect` is not used here."""
    await trio.lowlevel.checkpoint()
    try:
        listener = _listening.get(memory_name(url))
    except InvalidUrl as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, str(error)) from None
    if listener is None:
        raise ConnectFailed(Reason.CONNECT_FAILED, f"nobody in this process is listening on {url}")
    return listener.connect()


async def listen(
    url: str,
    key: SigningKey,
    handler: Handler,
    *,
    task_status: TaskStatus = trio.TASK_STATUS_IGNORED,
    on_refused: OnRefused = unheard,
    connections_max: int = CONNECTIONS_MAX,
) -> None:
    """Accept connections on a name until cancelled. Raises `ListenFailed`."""
    try:
        name = memory_name(url)
    except InvalidUrl as error:
        raise ListenFailed(str(error)) from None
    if name in _listening:
        raise ListenFailed(f"another node in this process is listening on {url}; choose another name")
    async with trio.open_nursery() as nursery:
        _listening[name] = _Listener(f"memory {name}", handler, on_refused, connections_max, nursery)
        try:
            task_status.started(url)
            await trio.sleep_forever()
        finally:
            del _listening[name]


class _Listener:
    """The listener of one name, which starts a task for each dialled connection."""

    def __init__(
        self, where: str, handler: Handler, on_refused: OnRefused, connections_max: int, nursery: trio.Nursery
    ) -> None:
        self._where = where
        self._handler = handler
        self._on_refused = on_refused
        self._connections_max = connections_max
        self._nursery = nursery
        self._open = 0

    def __repr__(self) -> str:
        return f"<_Listener on {self._where} with {self._open} of {self._connections_max} connections open>"

    def connect(self) -> MemoryStream:
        if self._open >= self._connections_max:
            text = f"{self._open} connections are open, and no more are allowed"
            self._on_refused(self._where, text)
            raise ConnectFailed(Reason.CONNECT_FAILED, f"{self._where}: {text}")
        self._open += 1
        ours, theirs = stream_pair(self._where)
        self._nursery.start_soon(self._serve, ours)
        return theirs

    async def _serve(self, stream: MemoryStream) -> None:
        try:
            try:
                await self._handler(stream)
            finally:
                await stream.aclose()
        except* (StreamBroken, ConnectFailed):
            pass  # the link has reported it
        finally:
            self._open -= 1


_listening: dict[str, _Listener] = {}


def stream_pair(where: str = "memory", buffer_bytes_max: int = BUFFER_BYTES_MAX) -> tuple[MemoryStream, MemoryStream]:
    """Return the two ends of one connection."""
    there, back = _Pipe(buffer_bytes_max), _Pipe(buffer_bytes_max)
    return MemoryStream(back, there, where), MemoryStream(there, back, where)


class _Pipe:
    """Bytes on their way in one direction, at most `limit`; then the sender waits for `changed`."""

    __slots__ = ("broken", "changed", "chunks", "ended", "limit", "size")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.chunks: deque[Buffer] = deque()
        self.size = 0
        self.ended = False  # cleanly: the rest can still be read
        self.broken: str | None = None
        self.changed = trio.lowlevel.ParkingLot()

    def put(self, part: Buffer) -> int:
        """Take as much of `part` as there is room for; return how many bytes that was."""
        count = min(len(part), self.limit - self.size)
        if count:
            self.chunks.append(part if count == len(part) else memoryview(part)[:count])
            self.size += count
            if self.changed:
                self.changed.unpark_all()
        return count

    def take(self, max_bytes: int) -> bytes:
        taken: list[Buffer] = []
        room = max_bytes
        while room and self.chunks:
            chunk = self.chunks.popleft()
            if len(chunk) > room:
                view = memoryview(chunk)
                self.chunks.appendleft(view[room:])
                chunk = view[:room]
            taken.append(chunk)
            room -= len(chunk)
        self.size -= max_bytes - room
        if self.changed:
            self.changed.unpark_all()
        return b"".join(taken)

    def end(self) -> None:
        self.ended = True
        self.changed.unpark_all()

    def cut(self, text: str) -> None:
        """Break the pipe: nothing more can be put in, and a reader finds it broken after the remaining bytes."""
        self.broken = self.broken or text
        self.changed.unpark_all()


class MemoryStream(DuplexStream):
    """One end of a pair inside this process. See `router.transport.Stream`."""

    __slots__ = ("_incoming", "_outgoing")

    def __init__(self, incoming: _Pipe, outgoing: _Pipe, where: str) -> None:
        super().__init__(where, owner=True)
        self._incoming = incoming
        self._outgoing = outgoing

    async def _receive(self, max_bytes: int) -> bytes:
        pipe = self._incoming
        if pipe.chunks or pipe.ended or self._broken or pipe.broken:  # else it waits, which is a checkpoint
            await trio.lowlevel.checkpoint()
        while not pipe.chunks:
            if self._broken or pipe.broken:
                raise StreamBroken(self._broken or pipe.broken)
            if pipe.ended:
                return b""
            await pipe.changed.park()
        return pipe.take(max_bytes)

    async def _send(self, parts: Sequence[Buffer]) -> None:
        pipe = self._outgoing
        for part in parts:
            while True:
                if pipe.broken:
                    raise StreamBroken(pipe.broken)
                part = part[pipe.put(part) :]
                if not part:
                    break
                await pipe.changed.park()

    async def _finish(self) -> None:
        self._outgoing.end()

    def _abandon(self) -> None:
        if not self._outgoing.ended:
            self._outgoing.cut(CUT)
        self._incoming.chunks.clear()
        self._incoming.cut("the peer has closed")
