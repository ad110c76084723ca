"""What apps and services of this node say when they refuse a message, for the log and for `router status`.

An outcome holds a reason and no text, so the text is an event of its own, in the transaction of the refusal.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from router.core.log import events as ev
from router.core.neighbours.directory import Directory, Standing
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.text import clean

from .effects import Pending
from .links import Link
from .parcel import Parcel

TEXTS_PER_S, TEXTS_BURST = 10.0, 100.0
"""Texts of one recipient that are logged in a second, and how many may be saved up; the refusals beyond are logged
without."""
LOGGED_MAX = 1_000
"""Most messages of one recipient of which it is known what text was logged last; the oldest are forgotten first."""


class _Said(Struct):
    """What one recipient said last, and how often it has refused messages. `logged`: the last text that was logged, by
    the arrival number of its message."""

    allowance: Allowance
    logged: dict[int, str] = field(default_factory=dict)
    count: int = 0
    reason: Reason = Reason.INTERNAL
    text: str = ""
    mono_ns: int = 0


class RefusalTexts:
    """Remembers the last refusal of each service of this node; logs the text of each that has one."""

    def __init__(self, directory: Directory, pending: Pending) -> None:
        self._directory = directory
        self._pending = pending
        self._said: dict[bytes, _Said] = {}

    def __repr__(self) -> str:
        return f"<refusals of {len(self._said)} services>"

    def refused(self, link: Link, parcel: Parcel, index: int, reason: Reason, text: str, now: Now) -> None:
        """Record the refusal of a message, for good or for now; a text that is repeated for it is logged once."""
        service = self._directory.services.get(link.key)
        if service is None or link.standing is not Standing.LOCAL:
            return
        said = self._said.setdefault(link.key, _Said(Allowance(TEXTS_PER_S, TEXTS_BURST)))
        arrival, text = parcel.first + index, clean(text)
        said.count += 1
        said.reason, said.text, said.mono_ns = reason, text, now.mono_ns
        if text and said.logged.get(arrival) != text and said.allowance.take(1, now.mono_s):
            said.logged[arrival] = text
            if len(said.logged) > LOGGED_MAX:
                del said.logged[next(iter(said.logged))]
            ids = parcel.ids[ev.ID_BYTES * index : ev.ID_BYTES * (index + 1)]
            fields = (("service", "router"), ("recipient", service.name), ("text", text))
            event = ev.Noted(now.wall_ns, now.mono_ns, ev.REFUSAL, self._directory.me, ids, int(reason), fields)
            self._pending.changes.events.append(event)

    def facts(self, service: bytes, now: Now) -> dict[str, Any] | None:
        """Return what `router status` says of the refusals of a service since this node started; None: there is
        none."""
        said = self._said.get(service)
        if said is None:
            return None
        age_s = round((now.mono_ns - said.mono_ns) / 1e9, 1)
        return {"count": said.count, "reason": said.reason.word, "text": said.text, "age_s": age_s}
