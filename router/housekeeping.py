"""What the message router does when nobody has told it anything: deadlines, queues that ended, damage, silent links.

It runs at the beginning of a cycle. What reads queues from the store comes before what changes them, and only one such
duty in a cycle: what it decides is committed before the store is read again.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from router.connection import Measured, Outlet
from router.core.effects import Now
from router.core.owed import Damaged
from router.core.reasons import Reason
from router.core.rights import Standing
from router.core.router import Router
from router.disk.logbook import Logbook
from router.disk.store import Store
from router.wall_clock import SECOND_NS, WallClock

log = logging.getLogger(__name__)

DAY_NS = 86_400 * SECOND_NS
LAPSE_S = 60.0
DROP_MESSAGES_MAX = 50_000
DROP_BYTES_MAX = 64 << 20
DISK_FREE_PART_MIN = 8
"""Pages that are free again within the store count as free disk, while an eighth of what must be free is so outside it:
large messages need pages side by side, and the log has none of these."""


@dataclass(frozen=True, slots=True)
class HousekeepingLimits:
    """No new messages below so much free disk; a link to a mere peer closes after so long without messages; a clock
    that jumps further ahead, or starts so far ahead of the newest event, expires nothing for now; a quiet link is
    pinged so often."""

    disk_free_bytes_min: int = 256 << 20
    idle_close_s: float = 300.0
    clock_step_s_max: float = 3600.0
    clock_ahead_s_max: float = 604_800.0
    ping_s: float = 30.0


class Housekeeping:
    """`outlets` and `measured` are the message router's, by link; `tidy` starts the sealing of the log in a task.

    `is_due`: a second has passed; `is_disk_full`: as it was then.
    """

    def __init__(
        self, router: Router, store: Store, logbook: Logbook, outlets: Mapping[int, Outlet],
        measured: dict[int, Measured], limits: HousekeepingLimits, now: Now, tidy: Callable[[Now], None],
    ) -> None:  # fmt: skip
        self._router = router
        self._store = store
        self._logbook = logbook
        self._outlets = outlets
        self._measured = measured
        self._limits = limits
        self._tidy = tidy
        self.wall = self._first_look(now)
        self._is_doubt_logged = False
        self.is_due = True
        self.is_disk_full = False
        self._has_dead_rows = False
        self._lapsed_at_s = self._looked_at_s = self._pinged_at_s = now.mono_s

    def _first_look(self, now: Now) -> WallClock:
        newest_ns, most_s = self._logbook.newest_ns(), self._limits.clock_ahead_s_max
        wall = WallClock(now, self._limits.clock_step_s_max, newest_ns, most_s)
        if wall.is_doubted:
            log.warning(
                "the clock is %.1f days ahead of the newest event here, more than a message lives (%.1f days); nothing "
                "expires until a neighbour's clock agrees, or the node is started again: if it is wrong, set it first",
                (now.wall_ns - newest_ns) / DAY_NS, most_s * SECOND_NS / DAY_NS,
            )  # fmt: skip
        return wall

    def begin_cycle(self, now: Now) -> None:
        """The first of these duties that there is cause for."""
        if damaged := self._store.take_damaged():
            self._lose(damaged, now)
        elif self._router.clears:
            self._clear(now)
        elif self.is_due:
            self._tick(now)

    def take_dead_rows(self) -> bool:
        """Whether the store has something to delete, even if nothing was decided; told once."""
        has, self._has_dead_rows = self._has_dead_rows, False
        return has

    def _lose(self, damaged: list[Damaged], now: Now) -> None:
        """What reads found spoilt by the disk leaves the queues, and the operator hears of it."""
        if damaged:
            count = sum(stop - start for one in damaged for start, stop in one.runs)
            recipients = len({one.recipient for one in damaged})
            log.error(
                "the disk has damaged what the store in %s holds (messages: %d, recipients: %d); they end as dropped, "
                "store-damaged, and the rest goes on; see to that disk", self._store.path, count, recipients,
            )  # fmt: skip
            self._router.lose(damaged, now)

    def _clear(self, now: Now) -> None:
        """Read what is owed to those who left, a bounded part at a time."""
        budget = DROP_MESSAGES_MAX
        while budget > 0 and (clear := self._router.clears.next()):
            recipient, group, before = clear
            owed, more = self._store.fetch(recipient, 0, budget, DROP_BYTES_MAX, group, before)
            self._router.drop(recipient, owed, now)
            damaged = self._store.take_damaged()
            self._lose(damaged, now)
            budget -= sum(one.stop - one.start for one in owed)
            if more:
                return
            self._router.clears.done(clear)
            if owed or damaged:
                return  # the same messages must not be read again before they are gone

    def _tick(self, now: Now) -> None:
        self.is_due = False
        self._look_at_clock(now)
        if not self.wall.is_doubted:
            self._router.expire(self._store.due(now.wall_s), now)
            self._lose(self._store.take_damaged(), now)
        self._router.tick(now)
        if now.mono_s - self._lapsed_at_s > LAPSE_S:
            self._lapsed_at_s = now.mono_s
            self._router.lapse(self.wall.believed(now))
        self._look_at_links(now)
        self._look_at_disk(now)

    def _look_at_links(self, now: Now) -> None:
        if now.mono_s - self._pinged_at_s > self._limits.ping_s:
            self._pinged_at_s = now.mono_s
            for outlet in self._outlets.values():
                outlet.look(now.mono_ns)
        if now.mono_s - self._looked_at_s > self._limits.idle_close_s:
            self._looked_at_s = now.mono_s
            self._close_idle()

    def _look_at_disk(self, now: Now) -> None:
        free, least = shutil.disk_usage(self._store.path).free, self._limits.disk_free_bytes_min
        if free < least and free >= least // DISK_FREE_PART_MIN:
            free += self._store.reusable_bytes()
        self.is_disk_full = free < least
        sealed = self._logbook.sealed(now)
        if sealed:
            self._store.log_is_sealed(sealed)
        self._has_dead_rows = self._store.has_dead_rows(self.wall.seconds(now))
        if self._logbook.is_due(now):
            self._tidy(self.wall.believed(now))

    def _look_at_clock(self, now: Now) -> None:
        step_s = self.wall.look(now, [one.offset_ns for one in self._measured.values() if self._is_far(one.link)])
        if step_s:
            log.warning("the clock jumped by %.0f s; nothing expires until a neighbour's clock agrees", step_s)
            self._measured.clear()
        if step_s or self.wall.is_doubted != self._is_doubt_logged:
            self._is_doubt_logged = self.wall.is_doubted
            self._router.clock_stepped(round(step_s), self.wall.is_doubted, now)

    def _is_far(self, number: int) -> bool:
        """Whether a neighbour that we know is at the other end: an app of ours has our own clock."""
        link = self._router.links.get(number)
        return link is not None and link.standing in (Standing.PEER, Standing.CLIENT)

    def _close_idle(self) -> None:
        """Links to peers that carried no message since the last look; never to apps, clients or uplinks."""
        for number, outlet in self._outlets.items():
            link = self._router.links.get(number)
            unneeded = link is not None and link.standing is Standing.PEER and not link.uplink
            if unneeded and outlet.is_idle:
                outlet.close(Reason.SHUTDOWN, "nothing to say for a while")
            outlet.is_idle = True
