"""What a monitoring system wants to know: counts since the start, the load, and why the node is not ready."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import psutil

from router.node.questions.question import CycleView, Questions, Respond
from router.node.wall_clock import BELIEVED

DISK_FULL, NO_UPLINK, CLOCK, LOG_BEHIND, COPIED = "disk-full", "no-uplink", "doubted-clock", "log-behind", "copied"
"""Why a node is not ready."""


class AskedLog(Protocol):
    """The part of the event log that is needed for metrics (`router.disk.log.logbook.Logbook`)."""

    def is_behind(self) -> bool: ...
    def behind_events(self) -> int: ...


class MetricsQuestions(Questions):
    """Tells the counts and the load. `services` returns one row for each service, as in `router status`, given the keys
    of all open links; `unverified`: how many messages wait for their signatures to be checked; `superseded`: what is
    known of neighbours at which another key has this node's place."""

    def __init__(
        self,
        log: AskedLog,
        services: Callable[[frozenset[bytes]], list[dict[str, Any]]],
        unverified: Callable[[], int],
        backup: Callable[[], dict[str, Any] | None],
        superseded: Callable[[], dict[str, Any] | None],
    ) -> None:
        self._log = log
        self._services = services
        self._unverified = unverified
        self._backup = backup
        self._superseded = superseded
        self._process = psutil.Process()  # made once, since that costs three times as much as to ask it

    def answers(self) -> dict[str, Respond]:
        return {"metrics": self._metrics}

    def _metrics(self, asked: CycleView, _: str) -> dict[str, Any]:
        router, held = asked.router, asked.router.queues.node
        counted, of_services = asked.counts.apart(router.rejections.waiting(asked.now()))
        return {
            "messages": [list(row) for row in counted.rows()],
            "of_services": [list(row) for row in of_services.rows()],
            "queue": {
                "messages": held.messages,
                "bytes": held.bytes,
                "messages_max": held.messages_max,
                "bytes_max": held.bytes_max,
            },
            "links": dict(Counter(link.standing.value for link in router.links)),
            "groups": len({one.group for one in router.groups}),
            "commits": asked.commits,
            "log_seq": asked.store.next_seq - 1 - asked.router.life.skipped,
            "resident_bytes": self._process.memory_info().rss,
            "seconds": {
                "delivery": router.delivery_times.facts(),
                "commit": asked.commit_times.facts(),
                "loop_lag": asked.lag.facts(),
            },
            **self._room(asked),
            "log_behind": self._log.behind_events(),
            "unverified": self._unverified(),
            "backup": self._backup_figures(),
            "services": [
                {name: row[name] for name in ("name", "module", "state", "starts")}
                for row in self._services(frozenset(link.key for link in router.links))
            ],
            "superseded_at": len((self._superseded() or {"at": ()})["at"]),
            "alarms": dict(Counter(row["alarm"] for row in asked.housekeeping.alarms.rows())),
            "unready": [list(row) for row in self._unready(asked)],
        }

    def _backup_figures(self) -> dict[str, Any] | None:
        """Return how old and large the newest snapshot is that this node made by itself, and how many it made; None if
        it makes none."""
        found = self._backup()
        return found and {name: found[name] for name in ("age_s", "bytes", "made", "failed", "overdue")}

    @staticmethod
    def _room(asked: CycleView) -> dict[str, Any]:
        """Return the room that the store and the disk have. Where no setting limits the store, the disk does."""
        space, free, least = asked.store.space(), asked.housekeeping.free_bytes, asked.housekeeping.free_bytes_min
        most = space.most or space.used + space.reusable + max(0, free - least)
        return {
            "store": {"used_bytes": space.used, "bytes_max": most},
            "disk": {"free_bytes": free, "free_bytes_min": least},
        }

    def _unready(self, asked: CycleView) -> Iterator[tuple[str, str]]:
        """Yield why this node does not do all that it is there for, each with a sentence."""
        if asked.router.copies.is_barred:
            yield COPIED, asked.router.copies.problem
        if asked.housekeeping.is_disk_full:
            yield DISK_FULL, "the disk is nearly full, and messages are refused; make room, or move the home"
        uplinks = [one for one in asked.router.directory.neighbours.values() if one.uplink and not one.blocked]
        if uplinks and not any(link.uplink for link in asked.router.links):
            yield NO_UPLINK, "no uplink is connected; `router peer list` says why"
        if asked.wall.state not in BELIEVED:
            yield CLOCK, f"{asked.wall.problem(asked.now())}; `router clock` says more"
        if self._log.is_behind():
            yield LOG_BEHIND, "the event log cannot be written, and its events wait in the store; make room on its disk"
