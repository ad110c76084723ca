"""The message router's duties without an event: deadlines, queues that ended, damage, the clock, silent links.

It runs at the beginning of a cycle. Duties that read queues from the store come before changes to them, and each cycle
runs one of them: its decisions are committed before the store is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from router.cli.output import size_text
from router.core.link.liveness import LivenessLimits
from router.core.neighbours.directory import Standing
from router.core.router import Router
from router.core.routing.owed import Damaged, Due, Owed
from router.core.routing.parcel import Parcel
from router.core.routing.recovered import Belief
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.disk.store.terms import StoreSpace
from router.node.alarm_watch import AlarmWatch, WatchedLog, WatchedStore
from router.node.link_events import Measured
from router.node.open_links import OpenLinks
from router.node.wall_clock import ClockState, Vote, WallClock
from router.settings.config import Config

log = logging.getLogger(__name__)

LAPSE_S = 60.0
DROP_MESSAGES_MAX = 50_000
DROP_BYTES_MAX = 64 << 20
DISK_FREE_PART_MIN = 8
"""Free pages within the store count as free disk while at least an eighth of the required space is free outside it:
large messages need adjacent pages, and the log cannot use the store's."""

DISK_IS_FULL = (
    "the disk of %s is nearly full: %s may be used, and store.disk_free_bytes_min leaves %s free. Messages are refused "
    "with reason disk-full until there is room; free some space, or move the home to a larger disk"
)

DEFAULTS = Config()


class HouseStore(WatchedStore, Protocol):
    """The part of a store that housekeeping needs (`router.disk.store.store.Store`)."""

    clock: Belief | None

    @property
    def path(self) -> Path: ...
    def take_damaged(self) -> list[Damaged]: ...
    def fetch(
        self,
        recipient: bytes,
        position: int,
        messages: int,
        size: int,
        group: bytes | None = None,
        before: int | None = None,
    ) -> tuple[list[Owed], bool]: ...
    def due(self, wall_s: int) -> list[Due]: ...
    def message(self, prefix: bytes) -> tuple[Parcel, int] | None: ...
    def space(self) -> StoreSpace: ...
    def log_is_sealed(self, seq: int) -> None: ...
    def has_dead_rows(self, wall_s: int) -> bool: ...


class SegmentedLog(WatchedLog, Protocol):
    """The part of the event log that housekeeping needs (`router.disk.log.logbook.Logbook`)."""

    def sealed(self, now: Now) -> int: ...
    def is_due(self, now: Now) -> bool: ...
    def is_idle(self, now: Now) -> bool: ...


class Tidy(Struct, frozen=True):
    """Seal or prune the event log."""

    now: Now


class HousekeepingLimits(Struct, frozen=True):
    """The free disk space below which messages are refused, the time after which a link to a peer closes without
    messages, and when a quiet link is pinged or cut."""

    disk_free_bytes_min: int = DEFAULTS.store.disk_free_bytes_min
    idle_close_s: float = DEFAULTS.link.idle_close_s
    liveness: LivenessLimits = LivenessLimits()


class Housekeeping:
    """Runs these duties on the cycle's open links and `deeds`; `free_bytes` returns the free disk space.

    `alarms`: what the node finds wrong with itself; `is_due`: a second has passed; `is_disk_full` and `free_bytes`: as
    found at the last such second.
    """

    def __init__(
        self,
        router: Router,
        store: HouseStore,
        logbook: SegmentedLog,
        open_links: OpenLinks,
        limits: HousekeepingLimits,
        now: Now,
        wall: WallClock,
        deeds: list[Any],
        free_bytes: Callable[[], int],
    ) -> None:
        self._router = router
        self._store = store
        self._logbook = logbook
        self._open_links = open_links
        self._limits = limits
        self._deeds = deeds
        self._free_bytes = free_bytes
        self._wall = wall
        self.alarms = AlarmWatch(router, store, logbook, now)
        self._told = ClockState.CONFIRMED if wall.state is ClockState.CONFIRMED else ClockState.BELIEVED
        self._told_apart_ns = now.wall_ns - now.mono_ns
        if not wall.is_doubted and (said := wall.problem(now)):
            log.warning("%s", said)
        self.is_due = True
        self.is_disk_full = False
        self.free_bytes = 0
        self.free_bytes_min = limits.disk_free_bytes_min
        self._has_dead_rows = False
        self._lapsed_at_s = self._looked_at_s = now.mono_s

    def begin_cycle(self, now: Now) -> None:
        """Run the first duty that is due: damage, queues to clear, or the duties of each second."""
        if damaged := self._store.take_damaged():
            self._lose(damaged, now)
        elif self._router.purges:
            self._clear(now)
        elif self.is_due:
            self._tick(now)

    def take_dead_rows(self) -> bool:
        """Whether the store has rows to delete, even if nothing was decided; true once for each finding."""
        has, self._has_dead_rows = self._has_dead_rows, False
        return has

    def _lose(self, damaged: list[Damaged], now: Now) -> None:
        """Drop messages that reads found damaged, and log an error for the operator."""
        if damaged:
            count = sum(stop - start for one in damaged for start, stop in one.runs)
            recipients = len({one.recipient for one in damaged})
            log.error(
                "the disk has damaged what the store in %s holds (messages: %d, recipients: %d); they end as dropped, "
                "store-damaged, and the rest goes on; see to that disk",
                self._store.path,
                count,
                recipients,
            )
            self._router.lose(damaged, now)

    def _clear(self, now: Now) -> None:
        """Read and drop the queues of recipients that left, a bounded part at a time."""
        budget = DROP_MESSAGES_MAX
        while budget > 0 and (clear := self._router.purges.next()):
            recipient, group, before = clear
            owed, more = self._store.fetch(recipient, 0, budget, DROP_BYTES_MAX, group, before)
            self._router.drop(recipient, owed, now)
            damaged = self._store.take_damaged()
            self._lose(damaged, now)
            budget -= sum(one.stop - one.start for one in owed)
            if more:
                return
            self._router.purges.done(clear)
            if owed or damaged:
                return  # the same messages must not be read again before they are gone

    def _tick(self, now: Now) -> None:
        self.is_due = False
        now = self._look_at_clock(now)
        if not self._wall.is_doubted:
            self._router.expire(self._store.due(now.judged_s), now)
            self._lose(self._store.take_damaged(), now)
        self._router.tick(now)
        if now.mono_s - self._lapsed_at_s > LAPSE_S and not self._wall.is_doubted:
            self._lapsed_at_s = now.mono_s
            self._router.lapse(now)
        self._look_at_links(now)
        self._look_at_disk(now)

    def _look_at_links(self, now: Now) -> None:
        for link_writer in self._open_links.writers.values():
            link_writer.look(now.mono_ns, self._limits.liveness)
        if now.mono_s - self._looked_at_s > self._limits.idle_close_s:
            self._looked_at_s = now.mono_s
            self._close_idle()

    def _look_at_disk(self, now: Now) -> None:
        free = self.free_bytes = self._free_bytes()
        least = self.free_bytes_min
        if free < least and free >= least // DISK_FREE_PART_MIN:
            free += self._store.space().reusable
        is_full = free < least
        if is_full and not self.is_disk_full:
            log.warning(DISK_IS_FULL, self._store.path, size_text(free), size_text(least))
        elif self.is_disk_full and not is_full:
            log.warning("there is room again on the disk of %s: messages are taken", self._store.path)
        self.is_disk_full = is_full
        sealed = self._logbook.sealed(now)
        if sealed:
            self._store.log_is_sealed(sealed)
        self.alarms.look(is_doubted=self._wall.is_doubted, now=now)
        if self._logbook.is_idle(now):
            self._router.witness.idle(now)
        self._has_dead_rows = self._store.has_dead_rows(now.earliest_ns // SECOND_NS)
        if self._logbook.is_due(now):
            self._deeds.append(Tidy(Now(now.earliest_ns, now.mono_ns)))

    # -- the clock -------------------------------------------------------------------------------------------

    def is_news(self, measured: Measured) -> bool:
        """Whether a measurement needs a cycle at once: it is a link's first, or may change the judgement of the
        clock."""
        return measured.link not in self._open_links.measured or self._may_decide(measured)

    def heard_clock(self, measured: Measured, now: Now) -> None:
        if self._may_decide(measured) and self._is_asked(measured.link):
            self._look_at_clock(now)

    def confirm_clock(self, now: Now) -> None:
        """Record the operator's word that the clock is right."""
        self._wall.confirm(now)
        self._judge_clock(0.0, now)

    def _may_decide(self, measured: Measured) -> bool:
        return self._wall.is_doubted or abs(measured.offset_ns) > self._wall.near_ns

    def _look_at_clock(self, now: Now) -> Now:
        """Judge the clock by its neighbours' measurements; return the reading with the new judgement."""
        asked = (one for one in self._open_links.measured.values() if one.rtt_ns <= self._wall.near_ns)
        votes = [Vote(one.offset_ns, self._is_uplink(one.link)) for one in asked if self._is_asked(one.link)]
        step_s = self._wall.look(now, votes)
        if step_s:
            log.warning("the clock jumped by %.0f s", step_s)
            self._open_links.measured.clear()
            for number, link_writer in self._open_links.writers.items():
                if self._is_asked(number):
                    link_writer.ping(now.mono_ns)
        return self._judge_clock(step_s, now)

    def _judge_clock(self, step_s: float, now: Now) -> Now:
        """Log that the judgement of the clock changed, or the time of the log's lines: by a step, by small ones that
        add up, or as neighbours that dispute it have another time than before."""
        now, is_doubted = self._wall.now(Now(now.shown_ns, now.mono_ns)), self._wall.is_doubted
        is_new = step_s != 0 or self._wall.state is not self._told
        moved_ns = now.wall_ns - now.mono_ns - self._told_apart_ns
        if is_new:
            self._told = self._wall.state
            if is_doubted:
                log.warning("%s", self._wall.problem(now))
            else:
                log.warning("the clock is %s: messages expire by it", self._told.value)
        if is_new or 2 * abs(moved_ns) > self._wall.step_ns_min:
            self._told_apart_ns += moved_ns
            by_s = step_s if is_new or is_doubted else moved_ns / SECOND_NS
            self._router.clock_judged(round(by_s), is_doubted, now)
        self._store.clock = self._wall.belief(now)
        return now

    def _is_asked(self, number: int) -> bool:
        """Whether the link's measurement counts for the clock: that of a neighbour known to the operator, not of an
        app, which has our clock."""
        link = self._router.links.get(number)
        return link is not None and not link.app and link.standing in (Standing.PEER, Standing.CLIENT)

    def _is_uplink(self, number: int) -> bool:
        link = self._router.links.get(number)
        return link is not None and link.uplink

    def _close_idle(self) -> None:
        """Close links to peers without a message since the last call; never to apps, clients or uplinks."""
        for number, link_writer in self._open_links.writers.items():
            link = self._router.links.get(number)
            unneeded = link is not None and link.standing is Standing.PEER and not link.uplink
            if unneeded and link_writer.is_idle:
                link_writer.close(Reason.SHUTDOWN, "no messages for a while")
            link_writer.is_idle = True
