"""Readable streams of a service's doors: one task looks after all of them, since to wake one for each costs more than
the reading itself."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

import trio

READ_BYTES_MAX = 64 * 1024
AHEAD_MAX = 2
"""Chunks of one stream that were read, and what follows from them is not carried out; then no more is read of it."""
Came = Callable[[bytes, Callable[[], None]], None]
"""Is called with a chunk, and with what to call when what follows from it was carried out."""


class Readers:
    """Calls `read` of each watched stream while it has something to read, or has ended."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[], None]] = {}

    def __repr__(self) -> str:
        return f"<readers of {len(self._watched)} streams>"

    def watch(self, fd: int, read: Callable[[], None]) -> None:
        """Call `read` when the stream is readable, until `unwatch`, which must come before the stream is closed."""
        self._watched[fd] = read
        self._epoll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """Let the stream wait; do nothing if it does already."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    async def run(self) -> None:
        """Look after the streams until cancelled."""
        with self._epoll:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for fd, _ in self._epoll.poll(0):
                    if (read := self._watched.get(fd)) is not None:
                        read()


class Reading:
    """The reading of one stream, a chunk at a time; it pauses while `AHEAD_MAX` of them are not carried out."""

    def __init__(self, readers: Readers, fd: int, came: Came) -> None:
        self._readers = readers
        self._fd = fd
        self._came = came
        self._ahead = 0
        self._is_paused = False
        self._ended = trio.Event()
        self._carried = trio.Event()

    def __repr__(self) -> str:
        return f"<reading of {self._fd}: {self._ahead} chunks ahead>"

    async def until_end(self) -> None:
        """Read until `pause` and `stop`, or until the peer ends the stream, and what it said is carried out; or until
        the stream breaks."""
        self._readers.watch(self._fd, self._read)
        try:
            await self._ended.wait()
            while self._ahead > 0:
                self._carried = trio.Event()
                await self._carried.wait()
        finally:
            self._ended.set()
            self._readers.unwatch(self._fd)

    def pause(self) -> None:
        """Read no more."""
        self._is_paused = True
        self._readers.unwatch(self._fd)

    def stop(self) -> None:
        """Let `until_end` return as soon as all that was read is carried out."""
        self.pause()
        self._ended.set()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:  # it is broken, which ends it whatever is not carried out
            data, self._ahead = b"", 0
        if not data:
            self._readers.unwatch(self._fd)
            self._ended.set()
            return
        self._ahead += 1
        if self._ahead == AHEAD_MAX:
            self._readers.unwatch(self._fd)
        self._came(data, self._carried_out)

    def _carried_out(self) -> None:
        self._ahead -= 1
        self._carried.set()
        if self._ahead == AHEAD_MAX - 1 and not (self._is_paused or self._ended.is_set()):
            self._readers.watch(self._fd, self._read)
