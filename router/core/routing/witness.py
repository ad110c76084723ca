"""Bearing witness: what a neighbour's pong said of its clock and of its event log becomes an event of our own log.

A tail that a neighbour cut off its log can be known only from what others wrote down of it. Only neighbours that the
operator knows are written down, by the key that they proved, and each at most once a minute.
"""

from __future__ import annotations

from router.core.log import events as ev
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.link_items import LogHead

from .directory import Directory
from .effects import Now, Pending
from .links import Links

EVERY_S = 60.0


class Witness:
    """Remembers when each neighbour was last written down: no more than there are in the configuration."""

    def __init__(self, directory: Directory, links: Links, pending: Pending) -> None:
        self._directory = directory
        self._links = links
        self._pending = pending
        self._written_s: dict[bytes, float] = {}

    def heard(self, number: int, rtt_ns: int, offset_ns: int, head: LogHead | None, now: Now) -> None:
        """A pong came. The offset is the neighbour's clock minus ours, known to half a round trip; without a `head`
        nothing of the neighbour's log is sealed yet."""
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
        fields: tuple[tuple[str, ev.Plain], ...] = (
            ("peer", link.key), ("rtt_ns", rtt_ns), ("offset_ns", offset_ns), ("uncertainty_ns", (rtt_ns + 1) // 2),
        )  # fmt: skip
        if head is not None:
            fields += (("head_seq", head.seq), ("head_digest", head.digest))
        self._pending.changes.events.append(ev.State(now.wall_ns, now.mono_ns, "link", fields))

    def clock_judged(self, by_s: int, doubted: bool, now: Now) -> None:
        """Our own clock stepped by so much, or what is thought of it has changed. After a step nothing is known of how
        far the others are from it."""
        fields: tuple[tuple[str, ev.Plain], ...] = (("by_s", by_s), ("doubted", doubted))
        if now.ahead_ns:
            fields += (("ahead_s", round(now.ahead_ns / SECOND_NS)),)
        self._pending.changes.events.append(ev.State(now.wall_ns, now.mono_ns, "clock_step", fields))
        for link in self._links if by_s else ():
            link.offset_ns = None
