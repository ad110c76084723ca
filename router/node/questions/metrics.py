"""What a monitoring system wants to know: counts since the start, the load, and why the node is not ready."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from router.node.questions.question import CycleView, Questions, Respond
from router.node.wall_clock import BELIEVED

DISK_FULL, NO_UPLINK, CLOCK, LOG_BEHIND = "disk-full", "no-uplink", "doubted-clock", "log-behind"
"""Why a node is not ready."""


class MetricsQuestions(Questions):
    """Tells the counts and the load. `is_log_behind`: whether the event log waits for its disk."""

    def __init__(self, is_log_behind: Callable[[], bool]) -> None:
        self._is_log_behind = is_log_behind

    def answers(self) -> dict[str, Respond]:
        return {"metrics": self._metrics}

    def _metrics(self, asked: CycleView, _: str) -> dict[str, Any]:
        router = asked.router
        counted, held = asked.counts.plus(router.rejections.waiting(asked.now())), router.queues.node
        return {
            "messages": [list(row) for row in counted.rows()],
            "queue": {
                "messages": held.messages,
                "bytes": held.bytes,
                "messages_max": held.messages_max,
                "bytes_max": held.bytes_max,
            },
            "links": dict(Counter(link.standing.value for link in router.links)),
            "groups": len({one.group for one in router.groups}),
            "commits": asked.commits,
            "log_seq": asked.store.next_seq - 1,
            "resident_bytes": psutil.Process().memory_info().rss,
            "unready": [list(row) for row in self._unready(asked)],
        }

    def _unready(self, asked: CycleView) -> Iterator[tuple[str, str]]:
        """Yield why this node does not do all that it is there for, each with a sentence."""
        if asked.housekeeping.is_disk_full:
            yield DISK_FULL, "the disk is nearly full, and messages are refused; make room, or move the home"
        uplinks = [one for one in asked.router.directory.neighbours.values() if one.uplink and not one.blocked]
        if uplinks and not any(link.uplink for link in asked.router.links):
            yield NO_UPLINK, "no uplink is connected; `router peer list` says why"
        if asked.wall.state not in BELIEVED:
            yield CLOCK, f"{asked.wall.problem(asked.now())}; `router clock` says more"
        if self._is_log_behind():
            yield LOG_BEHIND, "the event log cannot be written, and its events wait in the store; make room on its disk"
