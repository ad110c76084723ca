"""The time since which each topic is wanted here: earlier messages are history, and no news to the apps (R-C35)."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from struct import Struct

from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import UINT32_MAX
from router.service import contract as c
from services.pubsub.core.conduct.clock_steps import ClockSteps

KEPT = b"since/"
AGE_MAX_S = 7 * 86_400
"""Most seconds that count. If a topic has been wanted for longer, all messages from before have expired, unless
somebody chose a later expiry. So nobody can pass off new messages as old for longer."""
LATE_S = 2.0
"""An answer that takes longer proves nothing about earlier messages, because the question was on its way for too
long."""
_SINCE = Struct(">Q")


class Begun:
    """The begin of each topic, kept on disk so that a restart of the service begins nothing anew; after an UNSUB a
    topic begins anew.

    If the clock has been set since, the topic counts as wanted for ever: history may then be told as news, but never
    news as history."""

    def __init__(self, kept: Mapping[bytes, bytes], steps: ClockSteps) -> None:
        self._kept = kept
        self._steps = steps
        self._since: dict[PublicKey, tuple[float, float]] = {}  # Unix and monotonic second

    def __repr__(self) -> str:
        return f"<{len(self._since)} topics begun>"

    def begin(self, group: PublicKey, now: c.Now) -> list[c.Deed]:
        """Record that a topic is wanted, from now on unless it was before the service started."""
        kept = self._kept.get(KEPT + group)
        if kept is not None:
            since_s = float(_SINCE.unpack(kept)[0])
            age_s = now.wall_s - since_s
            is_known = age_s >= 0 and self._steps.is_steady_for(age_s, now)
            self._since[group] = (since_s, now.mono_s - age_s) if is_known else (0.0, -AGE_MAX_S)
            return []
        self._since[group] = now.wall_s, now.mono_s
        return [c.Put(KEPT + group, _SINCE.pack(int(now.wall_s)))]

    def end(self, group: PublicKey) -> list[c.Deed]:
        """Record that a topic is not wanted any more, or by nobody who reads it."""
        was_known = self._since.pop(group, None) is not None
        return [c.Put(KEPT + group, None)] if was_known or KEPT + group in self._kept else []

    def read(self, group: PublicKey, now: c.Now) -> list[c.Deed]:
        """Record that a topic is read here, unless that is known."""
        return [] if group in self._since else self.begin(group, now)

    def age_s(self, group: PublicKey, now: c.Now) -> int:
        """Return for how many seconds a topic has been wanted, rather too many than too few, so that messages since
        then never count as history, even if a clock has been set, or the question is on its way for `LATE_S`."""
        since_s, since_mono_s = self._since.get(group, (0.0, 0.0))
        age_s = 1 + ceil(LATE_S + max(now.wall_s - since_s, now.mono_s - since_mono_s, 0.0))
        return UINT32_MAX if age_s > AGE_MAX_S else age_s
