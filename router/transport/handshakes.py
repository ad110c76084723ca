"""Admit handshakes: address prefixes take turns, each with a rate and a number of places. On loopback each user of this
machine counts like a prefix.

A turn is charged when it is taken. A connection that leaves before costs nothing, whether it gave up, was turned away
or has closed its end.
"""

from __future__ import annotations

import heapq
import ipaddress
import logging
import math
import os
import select
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from weakref import WeakValueDictionary

import trio
from trio.socket import SocketType

from router.transport.limits import HandshakeLimits
from router.transport.pace import Pace
from router.transport.patience import Patience, patient
from router.transport.sockets import NotLetIn, close_after_last_byte

PREFIX_BITS = {4: 24, 6: 56}  # by IP version: addresses with the same leading bits count as one neighbour
SITE_BITS = {4: 24, 6: 48}  # an IPv6 site may have 256 prefixes, so it has a separate rate
SITE_PACES = 2  # a site's rate, as a multiple of a prefix's
PREFIXES_MAX = 10_000
KNOWN_MAX = 1_000  # prefixes from which a key that this node knows has proven itself
LATE_S = 1.0  # a handshake that waits for longer is worth a line in the log
SAID_EVERY_S = 10.0
BUSY_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"  # fatal, internal_error: may be sent before the handshake

LEFT = "the peer closed the connection before its handshake began"
CROWD = (
    "Handshakes are queued: %d wait and %d are under way, from %d address prefixes, most of them from %s "
    "(%d); new connections wait as well. If they are meant to come, raise limits.handshakes_per_s and "
    "limits.handshakes_per_s_per_prefix; if not, block their addresses in the firewall, or end what that user runs here"
)

_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL

log = logging.getLogger(__name__)


def prefix_of(address: str) -> str:
    """Return the /24 (IPv4) or /56 (IPv6) of an address, so that one neighbour with many addresses counts once."""
    return _network(address, PREFIX_BITS)


def source_name(address: str, user: str = "") -> str:
    """Return in words what shares the places of an address: its prefix, or in it one user of this machine."""
    return f"{prefix_of(address)} ({user})" if user else prefix_of(address)


def _network(address: str, bits: dict[int, int]) -> str:
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return str(ipaddress.ip_network((ip, bits[ip.version]), strict=False))


def is_gone(sock: SocketType) -> bool:
    """Whether the other end has closed, even if bytes that it sent before are still unread."""
    poll = select.poll()
    poll.register(sock.fileno(), _GONE)
    return bool(poll.poll(0))


def turn_away(sock: SocketType, last_words: bytes = BUSY_ALERT) -> None:
    """Close before any handshake, with last words that distinguish this from a broken connection."""
    with suppress(OSError):
        os.write(sock.fileno(), last_words)
    close_after_last_byte(sock)


def _pace(per_s: float, burst: float) -> Pace:
    return Pace(per_s, burst / per_s if per_s else 0.0)


class _Waiting:
    """A handshake that waits for its turn."""

    __slots__ = ("came_s", "has_left", "is_gone", "may_go_on")

    def __init__(self, is_gone: Callable[[], bool], now: float) -> None:
        self.is_gone = is_gone
        self.came_s = now
        self.has_left = False
        self.may_go_on = trio.Event()


class _Prefix:
    """The handshakes of one prefix: the waiting ones in order, and the time of those under way."""

    __slots__ = ("is_listed", "name", "paces", "patiences", "under_way", "waiting")

    def __init__(self, name: str, paces: tuple[Pace, ...]) -> None:
        self.name = name
        self.paces = paces
        self.waiting: dict[_Waiting, None] = {}
        self.under_way = 0
        self.patiences = set[Patience]()
        self.is_listed = False  # in a ring, or in the heap of those that wait for their rate

    @property
    def count(self) -> int:
        return self.under_way + len(self.waiting)

    def drop_gone(self) -> None:
        """Drop waiting connections that have closed, from the front up to the first that has not."""
        for first in list(self.waiting):
            if not first.is_gone():
                return
            del self.waiting[first]
            first.has_left = True
            first.may_go_on.set()


class Places:
    """At most `max_per_prefix` handshakes at once per address prefix; `WAITING` times as many may wait.

    A handshake is expensive for the node, so there is a rate for each prefix and one for all. Prefixes take turns in a
    round; every other turn is for prefixes from which a known key has proven itself (`proven`), while one of them
    waits. While others of its prefix wait, a handshake has only `spared_s`. `run` gives the turns that are due later.
    """

    WAITING = 4
    BURST_S = 2.0

    def __init__(self, limits: HandshakeLimits) -> None:
        self._limits = limits
        self._all = _pace(limits.per_s, math.ceil(limits.per_s * self.BURST_S))
        self._prefixes: dict[str, _Prefix] = {}  # the most recent at the end
        self._sites: WeakValueDictionary[str, Pace] = WeakValueDictionary()  # their prefixes hold them
        self._known: dict[str, None] = {}  # the most recent at the end
        self._rings: dict[bool, deque[_Prefix]] = {True: deque(), False: deque()}  # by whether a prefix is known
        self._was_known = False  # whether the last turn was a known prefix's
        self._later: list[tuple[float, int, _Prefix]] = []  # a heap by the time at which their rate allows a turn
        self._numbers = count()
        self._changed = trio.Event()
        self._said_s = -math.inf

    def __repr__(self) -> str:
        return f"<Places with {sum(one.count for one in self._prefixes.values())} handshakes>"

    async def run(self) -> None:
        """Give each turn when it is due; runs until cancelled."""
        while True:
            self._changed = trio.Event()
            with trio.move_on_at(self._hand_out(trio.current_time())):
                await self._changed.wait()

    def proven(self, address: str, user: str = "") -> None:
        """Note that a key known to this node has proven itself from that address, and that user of this machine."""
        name = source_name(address, user)
        self._known.pop(name, None)
        self._known[name] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    @asynccontextmanager
    async def place(
        self, address: str, is_gone: Callable[[], bool] = lambda: False, user: str = ""
    ) -> AsyncIterator[None]:
        """Wait for a place for one handshake, and hold it inside. `user`: of this machine, who counts alone. Raises
        `NotLetIn`."""
        prefix, limits = self._prefix(address, user), self._limits
        await self._turn(prefix, is_gone)
        with patient(limits.timeout_s) as patience:
            prefix.patiences.add(patience)
            try:
                self._hurry(prefix)
                yield
            finally:
                prefix.patiences.remove(patience)
                prefix.under_way -= 1
                self._list(prefix)
        if patience.scope.cancelled_caught and patience.seconds < limits.timeout_s:
            raise NotLetIn(
                f"the handshake was not done after {limits.spared_s:g} s, and others from {prefix.name} waited"
            )
        if patience.scope.cancelled_caught:
            raise NotLetIn(f"the handshake was not done after {limits.timeout_s:g} s")

    async def _turn(self, prefix: _Prefix, is_gone: Callable[[], bool]) -> None:
        if is_gone():
            raise NotLetIn(LEFT)
        if prefix.count >= self._limits.max_per_prefix * (1 + self.WAITING):
            self._tell_of_crowd()
            raise NotLetIn(f"{prefix.count} handshakes from {prefix.name} are already under way or waiting")
        one = _Waiting(is_gone, trio.current_time())
        prefix.waiting[one] = None
        self._hurry(prefix)
        self._list(prefix)
        try:
            with patient(self._limits.timeout_s):
                await one.may_go_on.wait()
        except trio.Cancelled:
            self._give_up(prefix, one)
            raise
        if one.has_left:
            raise NotLetIn(LEFT)
        if not one.may_go_on.is_set():
            self._give_up(prefix, one)
            self._tell_of_crowd()
            raise NotLetIn(f"its handshake did not begin within {self._limits.timeout_s:g} s, because others waited")

    def _give_up(self, prefix: _Prefix, one: _Waiting) -> None:
        """Remove a connection from the queue, and give back a turn that it was given at the same moment."""
        prefix.waiting.pop(one, None)
        if one.may_go_on.is_set() and not one.has_left:
            prefix.under_way -= 1
            for pace in (self._all, *prefix.paces):
                pace.give_back(1)
            self._list(prefix)

    def _prefix(self, address: str, user: str) -> _Prefix:
        """Return the address's prefix, or the user's part of it, which is remembered for its rate; beyond
        `PREFIXES_MAX` the least recent is forgotten."""
        name = source_name(address, user)
        found = self._prefixes.pop(name, None) or _Prefix(name, tuple(self._paces(address, user)))
        self._prefixes[name] = found
        if len(self._prefixes) > PREFIXES_MAX:
            del self._prefixes[next(iter(self._prefixes))]
        return found

    def _paces(self, address: str, user: str) -> Iterator[Pace]:
        per_s, most = self._limits.per_s_per_prefix, self._limits.max_per_prefix
        yield _pace(per_s, most)
        if not user and (site := _network(address, SITE_BITS)) != prefix_of(address):
            yield self._sites.setdefault(site, _pace(SITE_PACES * per_s, SITE_PACES * most))

    def _hurry(self, prefix: _Prefix) -> None:
        """Shorten the deadlines of running handshakes if others of their prefix wait."""
        if prefix.count > self._limits.max_per_prefix:
            for patience in prefix.patiences:
                patience.shorten(self._limits.spared_s)

    # -- turns ---------------------------------------------------------------------------------------------

    def _list(self, prefix: _Prefix) -> None:
        """Put a prefix with waiting handshakes into its ring, unless it is listed already."""
        if prefix.waiting and not prefix.is_listed:
            prefix.is_listed = True
            self._rings[prefix.name in self._known].append(prefix)
            self._hand_out(trio.current_time())
            self._changed.set()

    def _hand_out(self, now: float) -> float:
        """Give all turns that are due; return when the next one is."""
        while self._later and self._later[0][0] <= now:
            prefix = heapq.heappop(self._later)[2]
            self._rings[prefix.name in self._known].append(prefix)
        while any(self._rings.values()):
            if (due_s := self._all.free_at(1)) > now:
                return due_s
            self._offer(self._next(), now)
        return self._later[0][0] if self._later else math.inf

    def _next(self) -> _Prefix:
        self._was_known = bool(self._rings[True]) and not (self._was_known and self._rings[False])
        return self._rings[self._was_known].popleft()

    def _offer(self, prefix: _Prefix, now: float) -> None:
        """Give the first handshake of a prefix its turn if the prefix's rates and places allow it."""
        prefix.is_listed = False
        prefix.drop_gone()
        if not prefix.waiting or prefix.under_way >= self._limits.max_per_prefix:
            return  # the next arrival or end of a handshake lists it again
        prefix.is_listed = True
        if (due_s := max(pace.free_at(1) for pace in prefix.paces)) > now:
            heapq.heappush(self._later, (due_s, next(self._numbers), prefix))
            return
        for pace in (self._all, *prefix.paces):
            pace.take(1, now)
        one = next(iter(prefix.waiting))
        del prefix.waiting[one]
        prefix.under_way += 1
        one.may_go_on.set()
        prefix.is_listed = bool(prefix.waiting)
        if prefix.is_listed:
            self._rings[prefix.name in self._known].append(prefix)
        if now - one.came_s > LATE_S:
            self._tell_of_crowd()

    def _tell_of_crowd(self) -> None:
        """Log, at most every `SAID_EVERY_S`, how many handshakes wait and what can be done about it."""
        now = trio.current_time()
        crowd = [one for one in self._prefixes.values() if one.count]
        if now < self._said_s + SAID_EVERY_S or not crowd:
            return
        self._said_s = now
        most = max(crowd, key=lambda one: one.count)
        log.warning(
            CROWD,
            sum(len(one.waiting) for one in crowd),
            sum(one.under_way for one in crowd),
            len(crowd),
            most.name,
            most.count,
        )
