"""Write signed logs of a given size and shape: how many routers and files, how much one router and one recipient have.

A parcel is accepted, forwarded and delivered at one router (three lines), or, `HANDED` of them, handed on to a second
router that does the same (six lines). Some are always on their way, so the last ones are open where the logs end.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random

from router.core.log.events import Accepted, Outward, RouterChange
from router.core.wire.lifetime import SECOND_NS as SECOND
from router.core.wire.lifetime import expiry_min
from scale.stream_rate import Log

DAY_NS = 86_400 * SECOND
END_NS = 1_900_000_000 * SECOND + DAY_NS
"""The time after the last line of all logs."""
UP_NS = 30 * DAY_NS
SIZE, TTL_S = 1000, 86_400
HANDED = 0.05
WAITING = 500
"""Parcels on their way at any time."""
FILE_BYTES_MAX = 1 << 30
APPS = 50
"""Recipients of each router."""
LINES = 3
"""Lines of a parcel at each router."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`files`: of all logs together; `first`: the share of the lines that the first router has, None: as the others;
    `one`: the share of the messages that one recipient gets, in addition to its part of the rest; `days`: how many the
    lines are spread over."""

    lines: int
    routers: int = 20
    files: int = 200
    first: float | None = None
    one: float = 0.0
    batch: int = 2
    days: int = 1

    @property
    def begin_ns(self) -> int:
        return END_NS - self.days * DAY_NS

    @property
    def parcels(self) -> int:
        return int(self.lines / (LINES * (1 + HANDED)))

    @property
    def at_first(self) -> float:
        """Return the share of the parcels that are not handed on which the first router has; all handed on go to it."""
        assert self.first is not None
        return (self.first * (1 + HANDED) - HANDED) / (1 - HANDED)


Way = tuple[bytes, bytes]
"""The source of a message and its destination."""


@dataclass(slots=True)
class Parcel:
    """A parcel on its way. `taker`: whom it is handed on to; `first`, `first_there`: its arrival numbers."""

    origin: Router
    taker: Router | None
    way: Way
    ids: bytes
    first: int
    first_there: int = 0


class Router:
    """A router that writes its log, `lines_max` lines in each file."""

    def __init__(self, directory: Path, number: int, lines_max: int, shape: Shape) -> None:
        self._log = Log(directory / f"router-{number}" / "log", f"shaped {number}", FILE_BYTES_MAX)
        self.key = self._log.router
        self.apps = [sha256(b"app %d of %d" % (app, number)).digest() for app in range(APPS)]
        self._lines, self._lines_max, self._batch, self._begin_ns = 0, lines_max, shape.batch, shape.begin_ns
        self._arrivals = 1
        self._links: dict[bytes, int] = {}
        expiry = expiry_min(END_NS // SECOND + TTL_S)
        self._columns = [array("I", [value] * shape.batch).tobytes() for value in (SIZE, TTL_S, expiry)]

    def begin(self, now: int, others: list[Router], one: bytes) -> None:
        """Write the start, and that all others, its own apps and that one are connected."""
        self._at(now)
        self._log.put(RouterChange(now, UP_NS, "start", ()))
        standings = {**{other.key: "friend" for other in others}, **dict.fromkeys((*self.apps, one), "local")}
        self._links = {key: link for link, key in enumerate(standings, 1)}
        for key, link in self._links.items():
            fields = (("peer", key), ("link", link), ("standing", standings[key]))
            self._log.put(RouterChange(now, UP_NS, "link_up", fields))

    def accept(self, now: int, way: Way, neighbour: bytes, owed: bytes, ids: bytes) -> int:
        """Write that messages were accepted, and forwarded to whom they are `owed`; return the first arrival number."""
        self._at(now)
        log, first = self._log, self._arrivals
        self._arrivals += self._batch
        source, destination = way
        log.put(Accepted(now, log.mono, first, 0, source, destination, neighbour, 1, (owed,), ids, *self._columns))
        self._outward("forwarded", first, owed)
        return first

    def end(self, now: int, event: str, first: int, recipient: bytes) -> None:
        """Write the end of a parcel at this router; begin another file if this one is full."""
        self._at(now)
        self._outward(event, first, recipient)
        self._lines += LINES
        if self._lines >= self._lines_max:
            self.close()

    def close(self) -> None:
        self._log.close()
        self._lines = 0

    def _at(self, now: int) -> None:
        self._log.t, self._log.mono = now, now - self._begin_ns + UP_NS

    def _outward(self, event: str, first: int, recipient: bytes) -> None:
        log, spans = self._log, ((first, self._batch),)
        log.put(
            Outward(log.t, log.mono, event, recipient, self._links[recipient], spans, None, 0, WAITING, 1000, first)
        )


class Fleet:
    """The routers of a shape, which share its parcels at random, the same ones for the same seed."""

    def __init__(self, shape: Shape, directory: Path, seed: int) -> None:
        lines_max = max(LINES, shape.lines // shape.files)
        self._shape, self._random = shape, Random(seed)
        self._routers = [Router(directory, number, lines_max, shape) for number in range(shape.routers)]
        self._one = self._routers[0].apps[0]

    def write(self) -> int:
        """Write all logs; return the time after their last line, in nanoseconds."""
        shape = self._shape
        for router in self._routers:
            router.begin(shape.begin_ns, [other for other in self._routers if other is not router], self._one)
        flying: deque[Parcel] = deque()
        step_ns = shape.days * DAY_NS // shape.parcels
        for number in range(1, shape.parcels + 1):
            now = shape.begin_ns + number * step_ns
            flying.append(self._sent(now))
            if len(flying) > WAITING // 2:
                self._hand_on(now, flying[-1 - WAITING // 2])
            if len(flying) > WAITING:
                self._end(now, flying.popleft())
        for router in self._routers:
            router.close()
        return END_NS

    def _sent(self, now: int) -> Parcel:
        origin, taker = self._way()
        last = taker or origin
        recipient = self._one if self._random.random() < self._shape.one else self._random.choice(last.apps)
        ids, way = os.urandom(32 * self._shape.batch), (origin.apps[-1], recipient)
        first = origin.accept(now, way, way[0], taker.key if taker else recipient, ids)
        return Parcel(origin, taker, way, ids, first)

    def _way(self) -> tuple[Router, Router | None]:
        """Return the router that accepts a parcel, and the one that it hands it on to."""
        random, shape, routers = self._random, self._shape, self._routers
        is_handed = random.random() < HANDED
        if shape.first is None:
            origin, taker = random.sample(routers, 2)
            return origin, taker if is_handed else None
        if is_handed:
            return random.choice(routers[1:]), routers[0]
        return (routers[0] if random.random() < shape.at_first else random.choice(routers[1:])), None

    def _hand_on(self, now: int, parcel: Parcel) -> None:
        if parcel.taker is not None:
            parcel.first_there = parcel.taker.accept(now, parcel.way, parcel.origin.key, parcel.way[1], parcel.ids)
            parcel.origin.end(now, "acked", parcel.first, parcel.taker.key)

    def _end(self, now: int, parcel: Parcel) -> None:
        if parcel.taker is None:
            parcel.origin.end(now, "delivered", parcel.first, parcel.way[1])
        else:
            parcel.taker.end(now, "delivered", parcel.first_there, parcel.way[1])


def write_shape(shape: Shape, directory: Path, seed: int = 1) -> int:
    """Write the logs of a fleet of this shape; return the time after their last line, in nanoseconds since 1970."""
    return Fleet(shape, directory, seed).write()
