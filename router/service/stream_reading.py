"""Readable streams of a service's doors: one task looks after all of them, since to wake one for each costs more than
the reading itself."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from math import inf

import trio

READ_BYTES_MAX = 64 * 1024
AHEAD_MAX = 2
"""Chunks of one stream that were read, and what follows from them is not carried out; then no more is read of it."""
MOMENT_S = 0.001
"""How much earlier than planned patient streams are read if a cycle begins then."""
Read = Callable[[bool], None]
Came = Callable[[bytes, Callable[[], None]], None]
"""Is called with a chunk, and with what to call when what follows from it was carried out."""


class Watched:
    """Streams that are watched together. `read_ready` calls `read` of each that has something to read, or has ended;
    with whether the other end is gone, so that nothing comes behind what can be read now."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Read] = {}

    def __repr__(self) -> str:
        return f"<{len(self)} watched streams>"

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, fd: int, read: Read) -> None:
        """Call `read` when the stream is readable, until `unwatch`, which must come before the stream is closed."""
        if not self._epoll.closed:
            if fd not in self._watched:
                self._epoll.register(fd, select.EPOLLIN)
            self._watched[fd] = read

    def unwatch(self, fd: int) -> None:
        """Let the stream wait; do nothing if it does already."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def fileno(self) -> int:
        """Return what is readable while one of the streams is."""
        return self._epoll.fileno()

    def read_ready(self) -> None:
        """Read the streams that are readable now."""
        for fd, events in self._epoll.poll(0):
            if (read := self._watched.get(fd)) is not None:
                read(bool(events & select.EPOLLHUP))

    def close(self) -> None:
        self._watched.clear()
        self._epoll.close()


class StreamReaders(Watched):
    """Looks after all streams of a service. `patient`: those that need not be read at once; while they are held, all
    that comes over them waits, and is then read together: to wake for each costs more than to read it."""

    def __init__(self, now_s: Callable[[], float] = trio.current_time) -> None:
        super().__init__()
        self.patient = Watched()
        self._patient_fd = self.patient.fileno()
        self._now_s = now_s
        self._held_until_s = inf  # infinity: they are not held
        self._scope = trio.CancelScope()
        self._watch_patient()

    def __repr__(self) -> str:
        own = sum(fd != self._patient_fd for fd in self._watched)
        return f"<readers of {own + len(self.patient)} streams>"

    @property
    def is_held(self) -> bool:
        """Whether patient streams wait."""
        return self._held_until_s < inf

    def hold(self, for_s: float) -> None:
        """Let patient streams wait so long, unless they do already."""
        if for_s > 0 and not self.is_held:
            self.unwatch(self._patient_fd)
            self._held_until_s = self._scope.deadline = self._now_s() + for_s

    def read_patient(self) -> None:
        """Read what has come over patient streams, if the time is over for which they wait, or is in a moment."""
        if self.is_held and self._held_until_s <= self._now_s() + MOMENT_S:
            self._held_until_s = self._scope.deadline = inf
            self._watch_patient()
            for _ in range(AHEAD_MAX):  # else the rest of what a stream has waits for the next cycle
                self.patient.read_ready()

    def _watch_patient(self) -> None:
        self.watch(self._patient_fd, lambda _: self.patient.read_ready())

    async def run(self) -> None:
        """Look after the streams until cancelled."""
        try:
            while True:
                with trio.CancelScope(deadline=self._held_until_s) as self._scope:
                    await trio.lowlevel.wait_readable(self.fileno())
                self.read_patient()
                self.read_ready()
        finally:
            self.patient.close()
            self.close()


def _nobody(_data: bytes, _carried_out: Callable[[], None]) -> None:
    """Hear nothing: the stream has ended."""


class Reading:
    """The reading of one stream, a chunk at a time; it pauses while `AHEAD_MAX` of them are not carried out. `ended` is
    called once, at the end of the stream or of its reading."""

    def __init__(self, readers: Watched, fd: int, came: Came, ended: Callable[[], None]) -> None:
        self._readers = readers
        self._fd = fd
        self._came = came
        self._ended = ended
        self._ahead = 0
        self._is_paused = False
        self._is_ending = False
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<reading of {self._fd}: {self._ahead} chunks ahead>"

    @property
    def has_ended(self) -> bool:
        """Whether `ended` was called."""
        return self._has_ended

    def begin(self) -> None:
        """Read until `pause`, or until the peer ends the stream, and what it said is carried out; or until the stream
        breaks."""
        self._readers.watch(self._fd, self._read)

    def pause(self) -> None:
        """Read no more."""
        self._is_paused = True
        if not self._has_ended:  # else its number may be another stream's by now
            self._readers.unwatch(self._fd)

    def stop(self) -> None:
        """End as soon as all that was read is carried out."""
        self.pause()
        self._is_ending = True
        self._end()

    def cut(self) -> None:
        """End now, whatever is not carried out."""
        self._ahead = 0
        self.stop()

    def _end(self) -> None:
        if self._is_ending and self._ahead <= 0 and not self._has_ended:
            self._has_ended = True
            self._came = _nobody  # it may refer to who refers to this: a cycle, which lasts until the collector comes
            self._ended()

    def _read(self, is_last: bool) -> None:
        try:
            data = os.read(self._fd, READ_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:  # it is broken
            self.cut()
            return
        if not data:
            self.stop()
            return
        self._ahead += 1
        if self._ahead == AHEAD_MAX:
            self._readers.unwatch(self._fd)
        self._came(data, self._carried_out)
        if is_last and len(data) < READ_BYTES_MAX:
            self.stop()

    def _carried_out(self) -> None:
        self._ahead -= 1
        if self._is_ending:
            self._end()
        elif self._ahead == AHEAD_MAX - 1 and not self._is_paused:
            self._readers.watch(self._fd, self._read)
