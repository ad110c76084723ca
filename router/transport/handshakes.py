"""Handshakes that wait and that are under way: address prefixes take turns, and each has a pace and some places.

A turn is charged when it is taken. Who leaves before that costs nothing, whether it gave up, was sent away or has
closed its end of the connection.
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
from router.transport.sockets import Refused, close_after_last_byte

PREFIX_BITS = {4: 24, 6: 56}  # addresses that agree in so many bits count as one neighbour
SITE_BITS = {4: 24, 6: 48}  # a site may have 256 prefixes of IPv6: it has a pace of its own
SITE_PACES = 2  # that pace, in those of a prefix
PREFIXES_MAX = 10_000
KNOWN_MAX = 1_000  # prefixes from which a key that this node knows has proven itself
LATE_S = 1.0  # a handshake that waits for longer is worth a line in the log
SAID_EVERY_S = 10.0
BUSY_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"  # fatal, internal_error: may be sent before the handshake

LEFT = "the peer closed the connection before its handshake had a turn"
CROWD = (
    "TLS handshakes wait for their turn: %d wait and %d are under way, from %d address prefixes, most of them from %s "
    "(%d); who connects waits as well. If they are meant to come, raise limits.handshakes_per_s and "
    "limits.handshakes_per_s_per_prefix; if not, block their addresses in the firewall"
)

_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL

log = logging.getLogger(__name__)


def prefix_of(address: str) -> str:
    """The /24 (IPv4) or /56 (IPv6) of an address, so that one neighbour with many addresses counts once."""
    return _network(address, PREFIX_BITS)


def _network(address: str, bits: dict[int, int]) -> str:
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return str(ipaddress.ip_network((ip, bits[ip.version]), strict=False))


def is_gone(sock: SocketType) -> bool:
    """Whether the other end has closed, even if bytes that it sent before wait to be read."""
    poll = select.poll()
    poll.register(sock.fileno(), _GONE)
    return bool(poll.poll(0))


def turn_away(sock: SocketType) -> None:
    """Close before any handshake, with an alert: the other end can tell this from a connection that broke."""
    with suppress(OSError):
        os.write(sock.fileno(), BUSY_ALERT)
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
    """The handshakes of one prefix: those that wait in their order, and when those under way began."""

    __slots__ = ("began_s", "is_listed", "name", "paces", "under_way", "waiting")

    def __init__(self, name: str, paces: tuple[Pace, ...]) -> None:
        self.name = name
        self.paces = paces
        self.waiting: dict[_Waiting, None] = {}
        self.under_way = 0
        self.began_s: dict[trio.CancelScope, float] = {}
        self.is_listed = False  # in a ring, or among those that wait for their pace

    @property
    def count(self) -> int:
        return self.under_way + len(self.waiting)

    def drop_gone(self) -> None:
        """Let go of those in front that have closed, up to one that has not."""
        for first in list(self.waiting):
            if not first.is_gone():
                return
            del self.waiting[first]
            first.has_left = True
            first.may_go_on.set()


class Places:
    """At most `max_per_prefix` handshakes at once per address prefix; `WAITING` times as many may wait.

    A handshake costs more than it brings, so there is a pace for each prefix and one for all. Prefixes have their turns
    in a round; every other turn is for those from which a known key has proven itself (`proven`), as long as one of
    them waits. While others wait, a handshake has only `spared_s`. `run` hands out the turns that are not due at once.
    """

    WAITING = 4
    BURST_S = 2.0

    def __init__(self, limits: HandshakeLimits) -> None:
        self._limits = limits
        self._all = _pace(limits.per_s, math.ceil(limits.per_s * self.BURST_S))
        self._prefixes: dict[str, _Prefix] = {}  # those that came last at the end
        self._sites: WeakValueDictionary[str, Pace] = WeakValueDictionary()  # their prefixes hold them
        self._known: dict[str, None] = {}  # as the prefixes
        self._rings: dict[bool, deque[_Prefix]] = {True: deque(), False: deque()}  # by whether one is known
        self._was_known = False  # whose turn the last one was
        self._later: list[tuple[float, int, _Prefix]] = []  # a heap: when their pace lets them go on
        self._numbers = count()
        self._changed = trio.Event()
        self._said_s = -math.inf

    def __repr__(self) -> str:
        return f"<Places with {sum(one.count for one in self._prefixes.values())} handshakes>"

    async def run(self) -> None:
        """Hand out turns for ever, each when it is due."""
        while True:
            self._changed = trio.Event()
            with trio.move_on_at(self._hand_out(trio.current_time())):
                await self._changed.wait()

    def proven(self, address: str) -> None:
        """A key that this node knows has proven itself from there."""
        name = prefix_of(address)
        self._known.pop(name, None)
        self._known[name] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    @asynccontextmanager
    async def place(self, address: str, is_gone: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
        """Hold a place for one handshake, waiting for it if need be. Raises `Refused`."""
        prefix, limits = self._prefix(address), self._limits
        await self._turn(prefix, is_gone)
        began_s = trio.current_time()
        with trio.CancelScope(deadline=began_s + limits.timeout_s) as scope:
            prefix.began_s[scope] = began_s
            try:
                self._hurry(prefix)
                yield
            finally:
                del prefix.began_s[scope]
                prefix.under_way -= 1
                self._list(prefix)
        if scope.cancelled_caught and scope.deadline < began_s + limits.timeout_s:
            raise Refused(
                f"the handshake was not done after {limits.spared_s:g} s, and others from {prefix.name} waited"
            )
        if scope.cancelled_caught:
            raise Refused(f"the TLS handshake was not done after {limits.timeout_s:g} s")

    async def _turn(self, prefix: _Prefix, is_gone: Callable[[], bool]) -> None:
        if is_gone():
            raise Refused(LEFT)
        if prefix.count >= self._limits.max_per_prefix * (1 + self.WAITING):
            self._tell_of_crowd()
            raise Refused(f"{prefix.count} handshakes from {prefix.name} are already under way or waiting")
        one = _Waiting(is_gone, trio.current_time())
        prefix.waiting[one] = None
        self._hurry(prefix)
        self._list(prefix)
        try:
            with trio.move_on_after(self._limits.timeout_s):
                await one.may_go_on.wait()
        except trio.Cancelled:
            self._give_up(prefix, one)
            raise
        if one.has_left:
            raise Refused(LEFT)
        if not one.may_go_on.is_set():
            self._give_up(prefix, one)
            self._tell_of_crowd()
            raise Refused(f"its handshake had no turn within {self._limits.timeout_s:g} s, because others waited")

    def _give_up(self, prefix: _Prefix, one: _Waiting) -> None:
        """It takes no turn, not even one that was handed to it in the same moment."""
        prefix.waiting.pop(one, None)
        if one.may_go_on.is_set() and not one.has_left:
            prefix.under_way -= 1
            for pace in (self._all, *prefix.paces):
                pace.give_back(1)
            self._list(prefix)

    def _prefix(self, address: str) -> _Prefix:
        """It is remembered for its pace; of too many the one that came last longest ago is forgotten."""
        name = prefix_of(address)
        found = self._prefixes.pop(name, None) or _Prefix(name, tuple(self._paces(address)))
        self._prefixes[name] = found
        if len(self._prefixes) > PREFIXES_MAX:
            del self._prefixes[next(iter(self._prefixes))]
        return found

    def _paces(self, address: str) -> Iterator[Pace]:
        per_s, most = self._limits.per_s_per_prefix, self._limits.max_per_prefix
        yield _pace(per_s, most)
        if (site := _network(address, SITE_BITS)) != prefix_of(address):
            yield self._sites.setdefault(site, _pace(SITE_PACES * per_s, SITE_PACES * most))

    def _hurry(self, prefix: _Prefix) -> None:
        """Where somebody waits, those under way have little time."""
        if prefix.count > self._limits.max_per_prefix:
            for scope, began_s in prefix.began_s.items():
                scope.deadline = min(scope.deadline, began_s + self._limits.spared_s)

    # -- turns ---------------------------------------------------------------------------------------------

    def _list(self, prefix: _Prefix) -> None:
        """Some of it may go on, as far as it knows."""
        if prefix.waiting and not prefix.is_listed:
            prefix.is_listed = True
            self._rings[prefix.name in self._known].append(prefix)
            self._hand_out(trio.current_time())
            self._changed.set()

    def _hand_out(self, now: float) -> float:
        """Let those go on whose turn is due; returns when the next is."""
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
        """Let the first of a prefix go on if its pace and its places allow it."""
        prefix.is_listed = False
        prefix.drop_gone()
        if not prefix.waiting or prefix.under_way >= self._limits.max_per_prefix:
            return  # one that comes or goes lists it again
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
        """Now and then, while handshakes are late or turned away: how many wait, and what can be done."""
        now = trio.current_time()
        crowd = [one for one in self._prefixes.values() if one.count]
        if now < self._said_s + SAID_EVERY_S or not crowd:
            return
        self._said_s = now
        most = max(crowd, key=lambda one: one.count)
        log.warning(
            CROWD, sum(len(one.waiting) for one in crowd), sum(one.under_way for one in crowd), len(crowd), most.name,
            most.count,
        )  # fmt: skip
