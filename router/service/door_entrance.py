"""The entrance of a service's door: it accepts streams, and pauses while there is no place or descriptor for them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from math import inf

import trio

from router.service.door_places import CROWD_SHARE, USUAL, DoorBounds, StreamPlaces, source_of
from router.service.stream_reading import StreamReaders
from router.transport.socket_file import SocketFile, waiting_at
from router.transport.sockets import ACCEPT_PAUSE_S, EXHAUSTED, RAISE_LIMIT, words

ACCEPTS_MAX = 16
"""Most connections that are accepted at a door before other streams are read."""
ASIDE_MAX = 128
"""Most streams that wait aside at a crowded door; further ones are turned away."""
WARN_AGAIN_S = 10.0
"""Seconds between two warnings of one kind about a door."""
_PEER_GONE = frozenset((
    errno.EPERM, errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.ENONET,
    errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH, errno.ETIMEDOUT, errno.ECONNRESET,
))  # fmt: skip
"""Errors of accept(2) that concern one connection, which has gone."""


class DoorEntrance:
    """Accepts at the listening sockets of one door. `begin` begins a stream, which then takes a place; `lingering`
    returns one that the rules have closed and that still sends, "" if there is none; `give_way` ends the named one,
    which then frees its place; `warn` tells the operator.

    At a full door, one that lingers or the one that has to go is ended first, and the next one is accepted in its
    place. From the soft bound on, the streams of a crowded source wait aside and are let in one by one, sources in
    turn, while those of others are let in at once."""

    def __init__(
        self,
        readers: StreamReaders,
        nursery: trio.Nursery,
        begin: Callable[[socket.socket], None],
        lingering: Callable[[], str],
        give_way: Callable[[str], None],
        warn: Callable[[str], None],
        bounds: DoorBounds = USUAL,
    ) -> None:
        self.places = StreamPlaces(bounds.most)
        self._bounds = bounds
        self._readers = readers
        self._nursery = nursery
        self._begin = begin
        self._lingering = lingering
        self._give_way = give_way
        self._warn = warn
        self._listeners: list[socket.socket] = []
        self._files: list[SocketFile] = []
        self._awaits_place = False
        self._aside: list[tuple[str, socket.socket]] = []  # of crowded sources, in the order in which they came
        self._warned_s: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<entrance with {len(self._listeners)} listeners: {self.places!r}>"

    def listen(self, own: socket.socket, file: SocketFile | None) -> None:
        """Accept connections at a listening socket, too; `file`: its file, which is made again if it is lost, and goes
        with it."""
        self._add(own)
        if file is not None:
            self._files.append(file)
            place = [own]
            self._nursery.start_soon(file.keep, lambda fresh: self._replace(place, fresh))

    def _add(self, own: socket.socket) -> None:
        own.setblocking(False)
        self._listeners.append(own)
        if not self._awaits_place:
            self._watch(own)

    def _replace(self, place: list[socket.socket], fresh: socket.socket) -> None:
        """Accept at another socket than the one in this place, after those that have connected there."""
        before, place[0] = place[0], fresh
        self._readers.unwatch(before.fileno())
        self._listeners.remove(before)
        for stream in waiting_at(before):
            self._admit(stream)
        before.close()
        self._add(fresh)

    def close(self) -> None:
        """Close the listening sockets, and remove their files."""
        for own in (*self._listeners, *[stream for _, stream in self._aside]):
            own.close()
        self._aside.clear()
        for file in self._files:
            file.remove()

    def free(self, name: str) -> None:
        """Free the place of a stream, if it has one here; those who wait for one are accepted again."""
        self.places.free(name)
        if self._awaits_place and not self.places.is_full:
            self._awaits_place = False
            for own in self._listeners:
                self._watch(own)

    def _watch(self, own: socket.socket) -> None:
        self._readers.watch(own.fileno(), lambda _: self._accept(own))

    def _accept(self, own: socket.socket) -> None:
        """Accept those who wait, of whom there is one."""
        for accepted in range(ACCEPTS_MAX):
            if self.places.is_full and (accepted or self._makes_room()):
                return
            try:
                stream, _ = own.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _PEER_GONE:
                    continue
                self._rest(own, error)
                return
            self._admit(stream)

    def _admit(self, stream: socket.socket) -> None:
        if self.places.is_full:
            stream.close()
        elif self._bounds.pause_after(len(self.places)) and self._is_of_crowd(source := source_of(stream)):
            self._set_aside(source, stream)
        else:
            self._begin(stream)

    def _is_of_crowd(self, source: str) -> bool:
        waits = any(source == one for one, _ in self._aside)
        return waits or self.places.of_source(source) * CROWD_SHARE >= self._bounds.most

    def _set_aside(self, source: str, stream: socket.socket) -> None:
        if len(self._aside) >= ASIDE_MAX:
            stream.close()
            return
        self._aside.append((source, stream))
        if len(self._aside) == 1:
            self._nursery.start_soon(self._let_in)

    async def _let_in(self) -> None:
        """Let those in who wait aside: after each pause the first of the source with the fewest streams."""
        while self._aside:
            await trio.sleep(self._bounds.pause_after(len(self.places)))
            if not self.places.is_full:
                found = min(self._aside, key=lambda one: self.places.of_source(one[0]))
                self._aside.remove(found)
                self._begin(found[1])

    def _makes_room(self) -> bool:
        """Whether a stream gives way at this full door; nobody is accepted until it has ended."""
        name, found = self._lingering(), self.places.first_to_go()
        if not name and found is None:
            said = f"has {self._bounds.most} streams, the most, all of them known: others are turned away"
            self._warn_now_and_then("full", said)
            return False
        if not name and found is not None:
            name = found.name
            said = f"has {self._bounds.most} streams, the most: {found} gives way to another one"
            self._warn_now_and_then("full", said)
        self._awaits_place = True
        for own in self._listeners:
            self._readers.unwatch(own.fileno())
        self._give_way(name)
        return True

    def warn_of_want(self, text: str) -> None:
        """Warn that descriptors or memory are wanting, now and then."""
        self._warn_now_and_then("want", text)

    def _warn_now_and_then(self, kind: str, text: str) -> None:
        now_s = trio.current_time()
        if now_s - self._warned_s.get(kind, -inf) >= WARN_AGAIN_S:
            self._warned_s[kind] = now_s
            self._warn(text)

    def _rest(self, own: socket.socket, error: OSError) -> None:
        """Accept nobody at this socket for a while, mostly for want of descriptors or memory."""
        remedy = f"; {RAISE_LIMIT}" if error.errno in EXHAUSTED else ", and goes on trying"
        self._warn_now_and_then("rests", f"accepts nobody for now: {words(error)}{remedy}")
        self._readers.unwatch(own.fileno())
        self._nursery.start_soon(self._watch_later, own)

    async def _watch_later(self, own: socket.socket) -> None:
        await trio.sleep(ACCEPT_PAUSE_S)
        if not self._awaits_place and own in self._listeners:
            self._watch(own)
