"""The node's watch over itself: its log's open units against its store, its queues, its clock, and gaps in its log.

It looks each time a segment was closed, and every `LOOK_S` at least; at queues also when the node starts. The rows of
the store are read between two transactions, `ROWS_AT_ONCE` a second, so a look costs the loop about a millisecond a
second, however much is queued.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from router.core.log.account import Account, QueuedRow
from router.core.log.alarms import ALARM, CLOCK, FILLING, GAP, REPEATED, UNACCOUNTED, NodeAlarm
from router.core.router import Router
from router.core.routing.queues import Queue
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.now import Now

LOOK_S = 300.0
"""Seconds after which the watch looks again, also if no segment was closed; and those over which growth is measured."""
ROWS_AT_ONCE = 500
"""Rows of queues that are read in a second."""
FULL_S = 3_600
"""Seconds within which a queue that will be full is an alarm."""
EASED_S, EASED_SHARE = 7_200, 0.9
"""The alarm about a queue is over if it will not be full within that time, and is emptier than that share."""
NEARLY_EMPTY = 100
"""A queue that holds less than its limit divided by this is nearly empty, and its growth says nothing."""
DOUBTED_S = 600
"""Seconds of doubt after which the clock is an alarm."""
STANDS_S = 86_400
"""Seconds after which what cannot be mended is said to be over: units that nobody has, and gaps in the log."""


class WatchedStore(Protocol):
    """The part of a store that the watch needs (`router.disk.store.store.Store`)."""

    def queued(self, after: bytes, most: int) -> list[QueuedRow]: ...


class WatchedLog(Protocol):
    """The part of the event log that the watch needs (`router.disk.log.logbook.Logbook`)."""

    @property
    def account(self) -> Account: ...
    def is_behind(self) -> bool: ...
    def take_sealed(self) -> bool: ...
    def take_missing(self) -> int: ...


class AlarmWatch:
    """Looks for what is wrong, and logs each alarm once when it is raised and once when it is over."""

    def __init__(self, router: Router, store: WatchedStore, logbook: WatchedLog, now: Now) -> None:
        self._router = router
        self._store = store
        self._logbook = logbook
        self._looked_s = self._measured_s = now.mono_s
        self._waiting: dict[bytes, tuple[int, int]] | None = None
        self._growth: dict[bytes, tuple[float, float]] = {}
        self._doubted_s: float | None = None
        self._missing = 0
        self._seen_s = now.earliest_ns // SECOND_NS

    def rows(self, home: str = "", known: Mapping[bytes, str] = MappingProxyType({})) -> list[dict[str, Any]]:
        """Return the alarms that stand, the worst first, as values for JSON. `home`: the directory of the node, and
        `known`: the names of the keys that it keeps, for the sentences."""
        word = shlex.quote(home)
        found = sorted(self._logbook.account.alarms, key=lambda one: (one.level != "bad", one.since_s, one.key))
        return [
            {
                "alarm": one.kind,
                "level": one.level,
                "peer": one.recipient.hex(),
                "since_s": min(one.since_s, self._seen_s),
                "number": one.number,
                "text": one.text(self._router.directory.name_of(one.recipient) or known.get(one.recipient, ""), word),
            }
            for one in found
        ]

    def look(self, *, is_doubted: bool, now: Now) -> None:
        """Look, once a second; no transaction may be open, and the log must have the events of all earlier ones."""
        self._doubted_s = (self._doubted_s or now.mono_s) if is_doubted else None
        self._seen_s = now.earliest_ns // SECOND_NS
        self._logbook.account.alarms.settle(now.judged_s)
        if self._logbook.is_behind():
            return
        self._missing += self._logbook.take_missing()
        account = self._logbook.account
        if account.is_comparing:
            self._compare(account, now)
        is_first = self._waiting is None
        is_due = self._logbook.take_sealed() or now.mono_s - self._looked_s >= LOOK_S
        if is_first or now.mono_s - self._measured_s >= LOOK_S:
            self._measure(now)
        if is_first or is_due:
            self._say(self._filling(), (FILLING,), now)
        if is_due:
            self._looked_s = now.mono_s
            self._say([*self._doubt(now), *self._gap(now)], (CLOCK, GAP), now)
            if not account.is_comparing:
                account.begin(self._router.directory.successors.newest)

    def _say(self, found: list[NodeAlarm], kinds: tuple[str, ...], now: Now) -> None:
        for fields in self._logbook.account.alarms.changes(found, kinds, now.judged_s):
            self._router.note(ALARM, fields, now)

    # -- the store ---------------------------------------------------------------------------------------------------

    def _compare(self, account: Account, now: Now) -> None:
        """Read the next rows of the store; after the last one, say what is in the log or in the store alone."""
        rows = self._store.queued(account.position, ROWS_AT_ONCE)
        account.read(rows)
        if len(rows) == ROWS_AT_ONCE:
            return
        found: list[NodeAlarm] = []
        for recipient, (messages, arrivals) in account.compared().items():
            kind, arrival = REPEATED if messages < 0 else UNACCOUNTED, arrivals[0] if arrivals else -1
            standing = account.alarms.get((kind, recipient))
            if standing is not None and _has_stood(standing, now) and standing.number >= abs(messages):
                account.adopt(recipient)
            else:
                found.append(NodeAlarm(kind, recipient, abs(messages), arrival))
        self._say(found, (UNACCOUNTED, REPEATED), now)

    # -- what needs no store -----------------------------------------------------------------------------------------

    def _doubt(self, now: Now) -> list[NodeAlarm]:
        if self._doubted_s is None:
            return []
        doubted_s, standing = now.mono_s - self._doubted_s, self._logbook.account.alarms.get((CLOCK, b""))
        if standing is not None:  # an earlier run may have raised it
            return [standing]
        return [NodeAlarm(CLOCK, number=int(doubted_s))] if doubted_s >= DOUBTED_S else []

    def _gap(self, now: Now) -> list[NodeAlarm]:
        missing, self._missing = self._missing, 0
        standing = self._logbook.account.alarms.get((GAP, b""))
        if standing is None:
            return [NodeAlarm(GAP, number=missing)] if missing else []
        if not missing and _has_stood(standing, now):
            return []
        return [standing._replace(number=standing.number + missing)]

    def _measure(self, now: Now) -> None:
        """Measure how fast queues grow, in messages and bytes a second, since they were measured before."""
        span_s, self._measured_s = now.mono_s - self._measured_s, now.mono_s
        before, self._waiting, self._growth = self._waiting, {}, {}
        for queue in self._router.queues.by_recipient.values():
            if _is_nearly_empty(queue):
                continue
            waiting = self._waiting[queue.recipient] = queue.total.messages, queue.total.bytes
            if before is not None:
                limits = queue.total.messages_max, queue.total.bytes_max
                few = min(limits[0] // NEARLY_EMPTY, waiting[0]), min(limits[1] // NEARLY_EMPTY, waiting[1])
                was = before.get(queue.recipient, few)
                self._growth[queue.recipient] = (waiting[0] - was[0]) / span_s, (waiting[1] - was[1]) / span_s

    def _filling(self) -> list[NodeAlarm]:
        """Return the queues that are full, or will be within `FULL_S` as they have grown when they were measured."""
        found: list[NodeAlarm] = []
        for queue in self._router.queues.by_recipient.values():
            if _is_nearly_empty(queue):
                continue
            growth = self._growth.get(queue.recipient)
            full_s = _full_s(queue, growth or (0.0, 0.0))
            if self._is_filling(queue, full_s, is_measured=growth is not None):
                found.append(NodeAlarm(FILLING, queue.recipient, int(min(full_s, EASED_S))))
        return found

    def _is_filling(self, queue: Queue, full_s: float, *, is_measured: bool) -> bool:
        """Whether a queue is to be said; one that an earlier run has said also until its growth is measured."""
        if self._logbook.account.alarms.get((FILLING, queue.recipient)) is None:
            return full_s <= FULL_S
        total = queue.total
        share = max(total.messages / max(1, total.messages_max), total.bytes / max(1, total.bytes_max))
        return not is_measured or full_s <= EASED_S or share >= EASED_SHARE


def _has_stood(standing: NodeAlarm, now: Now) -> bool:
    """Whether an alarm has stood for a day, by a clock that is believed."""
    return now.judged_s - standing.since_s >= STANDS_S


def _is_nearly_empty(queue: Queue) -> bool:
    total = queue.total
    return total.messages * NEARLY_EMPTY < total.messages_max and total.bytes * NEARLY_EMPTY < total.bytes_max


def _full_s(queue: Queue, growth: tuple[float, float]) -> float:
    """Return the seconds until one of a queue's limits is reached, at this growth; infinity if never."""
    total, found = queue.total, float("inf")
    waiting, limits = (total.messages, total.bytes), (total.messages_max, total.bytes_max)
    for now, per_s, most in zip(waiting, growth, limits, strict=True):
        if now >= most:
            return 0.0
        if per_s > 0:
            found = min(found, (most - now) / per_s)
    return found
