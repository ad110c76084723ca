"""When a quiet neighbour is pinged, and when its connection is given up (pure).

A reader looks about once a second. What is given up is only what no longer works, never what is slow:

* Nothing was heard for three times `ping_s`. Where the system tells nothing of the path, this alone must be enough.
  Changes of this machine's network may double that time, however many there are, and no other ping renews it.
* The neighbour's machine acknowledges nothing, although the system has sent the same bytes again and again. A slow path
  acknowledges slowly, but it does; and what is only sent once more after a long round trip has not been sent often.
  After a change of this machine's network, half that time is enough.
* The connection's own address is no longer one of this machine, so that no answer can come.

TCP_USER_TIMEOUT would also end connections whose neighbour is there and does not read for a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from msgspec import Struct


class LivenessLimits(Struct, frozen=True):
    """`ping_s`: the time between pings on a quiet link; `owed_ping_s`: the time until the first, while something that
    was sent is not settled. `unacked_s`: how long the neighbour's machine may acknowledge nothing."""

    ping_s: float = 30.0
    owed_ping_s: float = 5.0
    unacked_s: float = 10.0


PINGS_MIN = 2
"""Pings that each had `ping_s` to be answered, before a link is given up when the time for the next one comes."""
REPEATS_MIN = 3
"""How often the system must have sent the same bytes in vain before its silence counts."""
STRANDED_S = 1.0
"""How long after a change of network an address may be away, as while it is renewed."""


class PathSigns(Struct, frozen=True):
    """What the system knows of a connection's path.

    `is_unacked`: bytes were sent that the other machine has not acknowledged; `acked_ago_s`: seconds since it last
    acknowledged anything; `repeats`: how often bytes were sent again since then."""

    is_unacked: bool = False
    acked_ago_s: float = 0.0
    repeats: int = 0


UNKNOWN = PathSigns()
"""No sign: the path is not a network's, or the system does not tell."""


class PathView(Struct, frozen=True):
    """How to find out about a connection's path: its signs, and whether its own address is gone from this machine."""

    signs: Callable[[], PathSigns]
    is_stranded: Callable[[], bool]


NO_PATH = PathView(lambda: UNKNOWN, lambda: False)


class LinkCheck(Enum):
    """What to do about a link."""

    WAIT = "wait"
    PING = "ping"
    SILENT = "nothing heard for a long time"
    UNACKED = "its machine acknowledges nothing any more"
    STRANDED = "this machine no longer has the address of the connection"

    @property
    def is_end(self) -> bool:
        """Whether the connection is given up, for the reason that the value states."""
        return self not in (LinkCheck.WAIT, LinkCheck.PING)


def _silence_s(limits: LivenessLimits) -> float:
    return (PINGS_MIN + 1) * limits.ping_s


class Liveness:
    """The silence of one neighbour."""

    __slots__ = (
        "_asked_s", "_changed_s", "_early_for", "_heard_s", "_is_path_asked", "_pings", "_since_s", "_unacked_s",
    )  # fmt: skip

    def __init__(self, now_s: float = 0.0) -> None:
        self._heard_s = now_s
        self._since_s = now_s  # when it was last heard, as of the last look
        self._pings = 0  # since then
        self._asked_s = -math.inf
        self._is_path_asked = True  # pinged since the network last changed
        self._unacked_s: float | None = None  # since when its machine has acknowledged nothing
        self._changed_s: float | None = None  # when the network changed, if nothing was heard since
        self._early_for: int | None = None  # the message for which it was last pinged early

    def __repr__(self) -> str:
        return f"<liveness: heard at {self._heard_s:g} s, {self._pings if self.is_asked else 0} pings unanswered>"

    @property
    def is_asked(self) -> bool:
        """Whether a ping is not answered yet."""
        return self._pings > 0 and self._heard_s <= self._since_s

    def heard(self, now_s: float) -> None:
        """Note that something was read from the neighbour."""
        self._heard_s = now_s

    def network_changed(self, now_s: float) -> None:
        """Note that the path may be another one from now on."""
        self._changed_s, self._is_path_asked = now_s, False

    def asked(self, now_s: float) -> None:
        """Note that the neighbour was sent a ping; one that comes behind another begins no new wait for the answer."""
        if not self.is_asked:
            self._count_ping(now_s)

    def _count_ping(self, now_s: float) -> None:
        self._pings += 1
        self._asked_s, self._is_path_asked = now_s, True

    def look(self, now_s: float, limits: LivenessLimits, path: PathView, owed: int | None) -> LinkCheck:
        """Return what to do now. `owed`: the number of the first message that was sent and is not settled."""
        if self._heard_s > self._since_s:
            self._pings, self._since_s, self._unacked_s = 0, self._heard_s, None
        if self._changed_s is not None and self._heard_s > self._changed_s:
            self._changed_s, self._is_path_asked = None, True
        if self._changed_s is not None and now_s - self._changed_s >= STRANDED_S and path.is_stranded():
            return LinkCheck.STRANDED
        is_waiting = self._pings or self._changed_s is not None or owed is not None
        if is_waiting and self._is_unacked(now_s, limits, path.signs()):
            return LinkCheck.UNACKED
        if not self._is_ping_due(now_s, limits, owed):
            return LinkCheck.WAIT
        self._early_for = owed
        if self._pings >= PINGS_MIN and now_s - self._silent_since_s(limits) >= _silence_s(limits):
            return LinkCheck.SILENT
        self._count_ping(now_s)
        return LinkCheck.PING

    def _is_ping_due(self, now_s: float, limits: LivenessLimits, owed: int | None) -> bool:
        if not self._is_path_asked:
            return now_s - self._asked_s >= limits.owed_ping_s
        if self._pings:
            return now_s - self._asked_s >= limits.ping_s
        return now_s - self._since_s >= self._quiet_s(limits, owed)

    def _silent_since_s(self, limits: LivenessLimits) -> float:
        """Return from when on silence counts: a changed path has its time to carry an answer, once."""
        changed_s = -math.inf if self._changed_s is None else self._changed_s
        return max(self._since_s, min(changed_s, self._since_s + _silence_s(limits)))

    def _quiet_s(self, limits: LivenessLimits, owed: int | None) -> float:
        """Return how long the neighbour may be quiet before it is pinged: early, but once for a message, since it may
        take its time to settle."""
        is_early = owed is not None and owed != self._early_for
        return min(limits.owed_ping_s, limits.ping_s) if is_early else limits.ping_s

    def _is_unacked(self, now_s: float, limits: LivenessLimits, signs: PathSigns) -> bool:
        if not signs.is_unacked:
            self._unacked_s = None
            return False
        begun_s = now_s if self._unacked_s is None else self._unacked_s
        self._unacked_s = max(begun_s, now_s - signs.acked_ago_s)
        patience_s = limits.unacked_s if self._changed_s is None else limits.unacked_s / 2
        return signs.repeats >= REPEATS_MIN and now_s - self._unacked_s >= patience_s
