"""Until when a stream has read all that came: only then is a log without new segments silent, and not just unread."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

SHARE = 0.2
"""Spark lists the files anew when fewer than this share of the most for one batch are left of the list before."""
PERIODS = 2
"""Pauses between two triggers after which at least one trigger has begun, also on a machine with much else to do."""
PAUSE_S_MIN = 2.0
"""Seconds that are waited for that at least."""


class Listed:
    """Told of each batch, and asked between batches. `every_s`: as of `run_stream`; if it is None, only the end of the
    run tells. `files_max`: the most new files in one batch, None for no limit."""

    def __init__(self, every_s: float | None, files_max: int | None) -> None:
        self._pause_s = inf if every_s is None else max(PERIODS * every_s, PAUSE_S_MIN)
        self._files_max = files_max
        self._is_first = True
        self._idle: tuple[float, int] | None = None
        self._all_ns: int | None = None

    def has_all(self, new: int) -> bool:
        """Return whether a batch of that many new files has all that had come when it began.

        The first batch of a run may be one that was begun by a run before, with the files of that time."""
        is_first, self._is_first = self._is_first, False
        is_limited = self._files_max is not None and new >= SHARE * self._files_max
        if is_limited:  # What is left comes with the next triggers, between which the stream is idle.
            self._idle = None
        return not is_first and not is_limited

    def all_ns(self, status: Mapping[str, Any], mono_s: float, now_ns: int) -> int | None:
        """Return the latest time known by which all that had come is read, in ns; None if none is known.

        `status`: of the query, at `mono_s`, which is `now_ns` by the audit's clock. Where a stream is idle twice, some
        pauses apart, a trigger began after the first of these and has ended."""
        idle = self._idle  # A batch, in another thread, may make it None.
        if is_idle(status) and (idle is None or mono_s - idle[0] >= self._pause_s):
            self._all_ns = self._all_ns if idle is None else idle[1]
            self._idle = mono_s, now_ns
        return self._all_ns


def is_idle(status: Mapping[str, Any]) -> bool:
    """Return whether a query waits for its next trigger, by its `status`, and has had one."""
    return not status["isTriggerActive"] and not status["message"].startswith("Initializing")
