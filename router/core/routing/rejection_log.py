"""The rejection log: messages turned away and links that came and went, summed so that they cannot fill the event log.

Messages that a neighbour brought and that were not accepted become one event for each neighbour, reason and second,
with their count and bytes; some of them are named by their ids. Each class of neighbours (apps of the owner, neighbours
that the operator knows, all strangers together) has a budget of log bytes. While half of it is left, sums are written
every second; below that, once a minute and without ids if these are too many; and links that carried nothing, and on
which no answer was logged, are counted instead of named. No count is lost: a sum grows until it is written. Addresses
that are not dialled because advertisements named too many count for strangers, once a minute.

The budget bounds all of these events in any `keep_s` of the log: `bytes_max` of the class, and an eighth of it more for
each start of the node in that time. Accepted messages and their outcomes are not bounded, and are always logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from router.core.log import events as ev
from router.core.neighbours.directory import UNKNOWN, Standing
from router.core.service.refusals import Refusals
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .effects import Pending
from .intake import ArrivedMessage
from .limits import RejectionLimits
from .links import Link

LINE_BYTES = 480
"""An upper bound of the length of a line without ids."""
ID_DIGITS = 64
BURST_PART = 8
STRANGERS_PART = 8
PATIENCE_S = 60.0
APART_MAX = 256
STRANGERS_APART_MAX = 8
"""Most neighbours of one standing with separate sums at a time; further ones share one."""


class LogBudget:
    """A budget of log bytes that fills evenly and holds at most an eighth of `bytes_max`."""

    def __init__(self, bytes_max: int, keep_s: float) -> None:
        self.burst = bytes_max / BURST_PART
        self._per_s = (bytes_max - self.burst) / max(1.0, keep_s)
        self._left = self.burst
        self._at_ns: int | None = None

    def __repr__(self) -> str:
        return f"<log budget: {self._left:.0f} of {self.burst:.0f} bytes>"

    def left(self, now: Now) -> float:
        if self._at_ns is not None:
            self._left = min(self.burst, self._left + (now.mono_ns - self._at_ns) / 1e9 * self._per_s)
        self._at_ns = now.mono_ns
        return self._left

    def is_ample(self, now: Now) -> bool:
        """Whether more than half of the burst is left."""
        return self.left(now) > self.burst / 2

    def affords(self, cost: int, now: Now) -> bool:
        """Whether `cost` may be spent now; a full budget affords any cost once, and goes into debt."""
        return self.left(now) >= min(cost, self.burst)

    def spend(self, cost: int) -> None:
        self._left -= cost


class Which(NamedTuple):
    """The key of a sum; `neighbour` is None for the neighbours beyond those with separate sums."""

    standing: Standing
    neighbour: bytes | None
    event: str
    reason: Reason

    @property
    def names(self) -> tuple[Standing, bytes | None]:
        """Return the key whose limit of named ids the sum uses: strangers share one."""
        return self.standing, None if self.standing in UNKNOWN else self.neighbour


class Sum(Struct):
    """A sum of messages turned away. `link`: the number of the link that brought them all, 0 if there were several."""

    since: Now
    link: int
    count: int = 0
    size: int = 0
    ids: bytearray = field(default_factory=bytearray)

    @property
    def cost(self) -> int:
        """Return the most bytes that the sum's line takes."""
        return LINE_BYTES + len(self.ids) // ev.ID_BYTES * ID_DIGITS


class RejectionLog:
    """Owns the sums not yet written: of at most `APART_MAX` neighbours of each standing, by event and reason.

    `me`: the router's key. `dials`: the addresses that were not dialled, for the dial budget to count."""

    def __init__(self, me: bytes, pending: Pending, limits: RejectionLimits) -> None:
        self.dials = Refusals()
        self._dials_ns = 0
        self._me = me
        self._pending = pending
        known = LogBudget(limits.known_bytes_max, limits.keep_s)
        unknown = dict.fromkeys(UNKNOWN, LogBudget(limits.strangers_bytes_max, limits.keep_s))
        self._budgets = {
            Standing.LOCAL: LogBudget(limits.apps_bytes_max, limits.keep_s),
            Standing.CLIENT: known,
            Standing.PEER: known,
            **unknown,
        }
        few = max(1, limits.ids_max // STRANGERS_PART) if limits.ids_max else 0
        self._ids_max = dict.fromkeys(Standing, limits.ids_max) | dict.fromkeys(UNKNOWN, few)
        self._apart_max = dict.fromkeys(Standing, APART_MAX) | dict.fromkeys(UNKNOWN, STRANGERS_APART_MAX)
        self._sums: dict[Which, Sum] = {}
        self._links: dict[tuple[Standing, str, str], tuple[Now, int]] = {}  # event, because: since, how many
        self._named: Counter[tuple[Standing, bytes | None]] = Counter()  # ids in these sums
        self._apart: dict[Standing, set[bytes]] = {standing: set() for standing in Standing}

    def __repr__(self) -> str:
        return f"<rejection log: {sum(one.count for one in self._sums.values())} turned away and not yet written>"

    # -- messages --------------------------------------------------------------------------------------------

    def reject(
        self,
        link: Link,
        event: str,
        reason: Reason,
        rows: Sequence[ArrivedMessage],
        now: Now,
        unread: int = 0,
        size: int = 0,
    ) -> None:
        """Add messages of the link that were turned away, and `unread` more with a total of `size` bytes, to a sum."""
        which = Which(link.standing, self._neighbour(link), event, reason)
        one = self._sums.get(which)
        if one is None:
            one = self._sums[which] = Sum(now, link.id)
        one.link = link.id if one.link == link.id else 0
        one.count += len(rows) + unread
        one.size += size + sum([row.end - row.frame_at for row in rows])
        named = rows[: max(0, self._ids_max[link.standing] - self._named[which.names])]
        if named:
            one.ids += b"".join([row.id for row in named])
            self._named[which.names] += len(named)

    def _neighbour(self, link: Link) -> bytes | None:
        apart = self._apart[link.standing]
        if link.key not in apart and len(apart) >= self._apart_max[link.standing]:
            return None
        apart.add(link.key)
        return link.key

    # -- links -----------------------------------------------------------------------------------------------

    def link_up(self, link: Link, now: Now) -> None:
        """Log a link by name at once while the budget is ample, else when a message is handed to it: see `name`."""
        if link.standing is Standing.LOCAL or self._budgets[link.standing].is_ample(now):
            self.name(link, now)
        else:
            self._count(link.standing, "link_up", "", now)

    def name(self, link: Link, now: Now) -> None:
        """Log a link by name, so that the log shows during which time messages handed to it were in flight."""
        link.is_named = True
        self._state(link, "link_up", now)

    def link_down(self, link: Link, now: Now, because: str) -> None:
        """Log the end of a link; `because`: why this node ended it, "" if it did not."""
        if link.is_named:
            self._state(link, "link_down", now, because)
        else:
            self._count(link.standing, "link_down", because, now)

    def _state(self, link: Link, event: str, now: Now, because: str = "") -> None:
        cause = (("because", because),) if because else ()
        fields = (("peer", link.key), ("link", link.id), ("standing", link.standing.value), *cause)
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, event, fields))
        if link.standing is not Standing.LOCAL:
            self._budgets[link.standing].spend(LINE_BYTES)

    def counts(self, standing: Standing, event: str, now: Now, lines: int = 1) -> bool:
        """Count an event instead of logging it if its standing's budget is not ample; return whether it was counted.

        `lines`: how many it pays for, with those that must follow it."""
        if self.spares(standing, now):
            self._budgets[standing].spend(LINE_BYTES * (lines - 1))
            return False
        self._count(standing, event, "", now)
        return True

    def spares(self, standing: Standing, now: Now) -> bool:
        """Whether the budget of a standing is ample for one more line; if so, pay for it."""
        budget = self._budgets[standing]
        if is_ample := budget.is_ample(now):
            budget.spend(LINE_BYTES)
        return is_ample

    def _count(self, standing: Standing, event: str, because: str, now: Now) -> None:
        whose = standing, event, because
        since, times = self._links.get(whose, (now, 0))
        self._links[whose] = since, times + 1

    # -- writing ---------------------------------------------------------------------------------------------

    def tick(self, now: Now) -> None:
        """Write, about once a second, the sums that are due and can be afforded."""
        for which, one in list(self._sums.items()):
            budget = self._budgets[which.standing]
            if not _is_due(budget, one.since, now):
                continue
            if not budget.affords(one.cost, now):
                one.ids.clear()
            if budget.affords(one.cost, now):
                self._write(which, one, now)
        for whose, (since, times) in list(self._links.items()):
            budget = self._budgets[whose[0]]
            if _is_due(budget, since, now) and budget.affords(LINE_BYTES, now):
                self._write_links(*whose, times, now)
        budget = self._budgets[Standing.STRANGER]
        if now.mono_ns - self._dials_ns >= PATIENCE_S * 1e9 and budget.affords(LINE_BYTES * len(self.dials), now):
            self._write_dials(now)
        self._tell_apart_anew()

    def write_all(self, now: Now) -> None:
        """Write all sums, before the node stops or when its owner asks, with a debt if the budget is exceeded."""
        for which, one in list(self._sums.items()):
            self._write(which, one, now)
        for whose, (_, times) in list(self._links.items()):
            self._write_links(*whose, times, now)
        self._write_dials(now)
        self._tell_apart_anew()

    def write_naming(self, is_wanted: Callable[[bytes], bool], asker: bytes | None, now: Now) -> bool:
        """Write the sums that name an id for which `is_wanted` is true; return whether there were any.

        For an `asker` (None: the owner) only its own sums are written, and only while the budget is ample."""
        found = [
            which
            for which, one in self._sums.items()
            if asker is None or (which.neighbour == asker and self._budgets[which.standing].is_ample(now))
            if any(map(is_wanted, _ids(one)))
        ]
        for which in found:
            self._write(which, self._sums[which], now)
        self._tell_apart_anew()
        return bool(found)

    def waiting(self, now: Now) -> list[ev.Turned]:
        """Return the events of the sums that are not yet written."""
        return [_turned(which, one, now) for which, one in self._sums.items()]

    def _tell_apart_anew(self) -> None:
        self._apart = {standing: set() for standing in Standing}
        self._named.clear()
        for which, one in self._sums.items():
            self._apart[which.standing] |= {which.neighbour} if which.neighbour is not None else set()
            self._named[which.names] += len(one.ids) // ev.ID_BYTES

    def _write(self, which: Which, one: Sum, now: Now) -> None:
        self._pending.changes.events.append(_turned(which, one, now))
        self._budgets[which.standing].spend(one.cost)
        del self._sums[which]

    def _write_links(self, standing: Standing, event: str, because: str, times: int, now: Now) -> None:
        cause = (("because", because),) if because else ()
        fields = (("standing", standing.value), ("times", times), *cause)
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, event, fields))
        self._budgets[standing].spend(LINE_BYTES)
        del self._links[standing, event, because]

    def _write_dials(self, now: Now) -> None:
        self._dials_ns = now.mono_ns
        for reason, fields in self.dials.take():
            note = (("service", "router"), *fields.items())
            event = ev.Noted(now.wall_ns, now.mono_ns, ev.DIAL_REFUSED, self._me, b"", reason, note)
            self._pending.changes.events.append(event)
            self._budgets[Standing.STRANGER].spend(LINE_BYTES)


def _is_due(budget: LogBudget, since: Now, now: Now) -> bool:
    return budget.is_ample(now) or now.mono_ns - since.mono_ns >= PATIENCE_S * 1e9


def _ids(one: Sum) -> Iterator[bytes]:
    return (bytes(one.ids[at : at + ev.ID_BYTES]) for at in range(0, len(one.ids), ev.ID_BYTES))


def _turned(which: Which, one: Sum, now: Now) -> ev.Turned:
    took_ns = max(0, now.mono_ns - one.since.mono_ns)
    return ev.Turned(
        now.wall_ns,
        now.mono_ns,
        which.event,
        which.neighbour,
        one.link,
        which.reason,
        bytes(one.ids),
        one.count,
        None,
        one.size,
        took_ns,
    )
