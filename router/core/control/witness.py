"""Witness of neighbours, and of ourselves: the clock and log head in a neighbour's pong become an event of our own log.

If a neighbour cuts off the tail of its log, only the logs of others can show it. Only neighbours that the operator
knows are logged, by the key that they proved, each at most once a minute.
"""

from __future__ import annotations

from router.core.log import events as ev
from router.core.routing.kernel import Kernel
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.link_items import LogHead
from router.core.wire.now import Now

EVERY_S = 60.0


class Witness:
    """Logs pongs; keeps the last log time per neighbour, bounded by the configured neighbours."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._pending = kernel.pending
        self._rejections = kernel.rejections
        self._written_s: dict[bytes, float] = {}

    def heard(self, number: int, rtt_ns: int, offset_ns: int, head: LogHead | None, now: Now) -> None:
        """Record a pong, and log it if it is due.

        `offset_ns`: the neighbour's clock minus ours, accurate to half a round trip; `head` is None if nothing of the
        neighbour's log is sealed yet."""
        link = self._links.get(number)
        if link is not None:
            link.offset_ns = offset_ns
        if link is None or link.app or link.key not in self._directory.neighbours:
            return
        written_s = self._written_s.get(link.key)
        if written_s is not None and now.mono_s - written_s < EVERY_S:
            return
        self._written_s = {key: at for key, at in self._written_s.items() if key in self._directory.neighbours}
        self._written_s[link.key] = now.mono_s
        if not link.is_named:  # a log tells of a link before it tells of what came over it
            self._rejections.name(link, now)
        fields: ev.Fields = (
            ("peer", link.key),
            ("rtt_ns", rtt_ns),
            ("offset_ns", offset_ns),
            ("uncertainty_ns", (rtt_ns + 1) // 2),
        )
        if head is not None:
            fields += (("head_seq", head.seq), ("head_digest", head.digest))
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "link", fields))

    def clock_judged(self, by_s: int, doubted: bool, now: Now) -> None:
        """Log that our own clock stepped by `by_s`, or that the judgement of it changed; a step voids all offsets."""
        fields: ev.Fields = (("by_s", by_s), ("doubted", doubted))
        if now.ahead_ns:
            fields += (("ahead_s", round(now.ahead_ns / SECOND_NS)),)
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "clock_step", fields))
        for link in self._links if by_s else ():
            link.offset_ns = None

    def idle(self, now: Now) -> None:
        """Log that the node runs, though nothing was logged for a time."""
        self._pending.changes.events.append(ev.by_router(self._directory.me, ev.IDLE, (), now))
