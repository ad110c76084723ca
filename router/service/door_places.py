"""The places for streams at a door, so that whoever fills one keeps nobody else out of it for long."""

from __future__ import annotations

import socket
from collections import Counter
from typing import NamedTuple

from router.core.wire.text import counted
from router.transport.handshakes import prefix_of
from router.transport.sockets import user_of
from router.transport.tcp import host_port

STREAMS_MAX = 256
"""Most streams that are accepted at one door and open at once, most that rules open under its name, and most of them
that were handed over; each is a limit of its own."""


CROWD_SHARE = 16
"""A source with one in so many of a door's places is a crowd."""


class DoorBounds(NamedTuple):
    """How many streams a door has at most. From `soft` on, the next one of a crowd is let in after a pause, which grows
    with the number of streams to `pause_s` at the most; 0: there is no pause."""

    most: int = STREAMS_MAX
    soft: int = STREAMS_MAX
    pause_s: float = 0.0

    def pause_after(self, streams: int) -> float:
        """Return for how long a crowd waits when so many streams are open."""
        if self.soft >= self.most or streams < self.soft:
            return 0.0
        return self.pause_s * min(1.0, (streams - self.soft) / (self.most - self.soft))


USUAL = DoorBounds()


class Leaver(NamedTuple):
    """A stream that gives way to another one, and why.

    Its source has `of_source` streams that are not known, more than any other, or as many as others: `sources` in all;
    `has_talked`: something has followed from what it said."""

    name: str
    source: str
    of_source: int
    sources: int
    has_talked: bool

    def __str__(self) -> str:
        who = "the one that has been idle longest" if self.has_talked else "the oldest silent one"
        if not self.source:
            return who
        if self.sources == 1:
            return f"{who} from {self.source}, where most ({self.of_source}) come from,"
        return f"{counted(self.sources, 'source')} have {self.of_source} each, and of these {who}, from {self.source},"


class StreamPlaces:
    """The places of streams, each with its source: an address prefix, or a user of this machine. `most`: how many."""

    def __init__(self, most: int = STREAMS_MAX) -> None:
        self._most = most
        self._sources: dict[str, str] = {}  # of each stream, in the order in which they came
        self._talked: dict[str, None] = {}  # of the streams that have, the one first that has not for longest
        self._known: set[str] = set()

    def __repr__(self) -> str:
        return f"<{len(self._sources)} of {self._most} places taken, {len(self._known)} by known streams>"

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    @property
    def is_full(self) -> bool:
        return len(self._sources) >= self._most

    def of_source(self, source: str) -> int:
        """Return how many streams of that source have a place."""
        return sum(one == source for one in self._sources.values())

    def take(self, name: str, source: str) -> None:
        """Give a stream a place."""
        self._sources[name] = source

    def is_known(self, name: str) -> bool:
        """Whether this stream keeps its place until it ends."""
        return name in self._known

    def mark_known(self, name: str) -> None:
        """Let this stream keep its place until it ends; do nothing if it has none."""
        if name in self._sources:
            self._known.add(name)

    def free(self, name: str) -> None:
        """Free the place of a stream; do nothing if it has none."""
        self._sources.pop(name, None)
        self._talked.pop(name, None)
        self._known.discard(name)

    def talked(self, name: str) -> None:
        """Record that something followed from what a stream said; do nothing if it has no place."""
        if name in self._sources:
            self._talked.pop(name, None)
            self._talked[name] = None

    def first_to_go(self) -> Leaver | None:
        """Return the stream that gives way to another one: of those that are not known, one of the source with most. Of
        these, or if several sources have as many, the first is one that has not talked, the oldest; else the one that
        has talked least lately. None if all are known."""
        unknown = {name: source for name, source in self._sources.items() if name not in self._known}
        if not unknown:
            return None
        counts = Counter(unknown.values())
        most = max(counts.values())
        sources = {source for source, count in counts.items() if count == most}
        among = [name for name, source in unknown.items() if source in sources]
        silent = next((name for name in among if name not in self._talked), None)
        name = silent or next(name for name in self._talked if unknown.get(name) in sources)
        return Leaver(name, unknown[name], most, len(sources), has_talked=silent is None)


def source_of(own: socket.socket) -> str:
    """Return what the streams of one source have in common: an address prefix, or the user at a Unix socket; "" if it
    is not known."""
    try:
        if own.family != socket.AF_UNIX:
            return prefix_of(own.getpeername()[0])
    except OSError:  # it is gone already
        return ""
    user = user_of(own)
    return "" if user is None else f"user {user}"


def address_of(own: socket.socket) -> str:
    """Return HOST:PORT of a stream's other end; "" at a Unix socket, and if it is gone already."""
    if own.family == socket.AF_UNIX:
        return ""
    try:
        host, port = own.getpeername()[:2]
    except OSError:
        return ""
    return host_port(host, port)
