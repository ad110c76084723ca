"""The open links of a node, by number: where each is written to and what was measured on it; and when a neighbour that
has none was last here."""

from __future__ import annotations

import logging

from router.core.router import Router
from router.core.routing.effects import Close, SendItem, SendOwn, SendParcel, Settle
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.node.link_events import Measured
from router.node.link_writer import LinkWriter

log = logging.getLogger(__name__)

LEFT_MAX = 4_096
"""Neighbours without a link of which the last contact is known; beyond it the earliest is forgotten."""


class OpenLinks:
    """Owns the link writers and the last measurement of each link."""

    def __init__(self) -> None:
        self.writers: dict[int, LinkWriter] = {}
        self.measured: dict[int, Measured] = {}
        self._left_s: dict[bytes, float] = {}  # by the steady clock, when the link of a known key ended

    def __repr__(self) -> str:
        return f"<{len(self.writers)} open links>"

    def write(self, effect: SendParcel | Settle | SendOwn | SendItem | Close) -> None:
        """Write an effect to its link; ignore one whose link is closed."""
        writer = self.writers.get(effect.link)
        if writer is None:
            return
        match effect:
            case SendParcel():
                writer.hand(effect.parcel, effect.start, effect.stop, effect.local)
            case Settle():
                writer.settle(effect.n, effect.refusals)
            case SendOwn():
                writer.tell(effect.wire)
            case SendItem():
                writer.say(effect.item)
            case Close():
                if effect.reason is Reason.NOT_AUTHORISED and effect.text:
                    log.warning("%s is not let in: %s", writer.where, effect.text)
                writer.close(effect.reason, effect.text)

    def network_changed(self, now: Now) -> None:
        """Ask the neighbours on other machines soon whether they are still reached."""
        for writer in self.writers.values():
            if writer.ip:
                writer.liveness.network_changed(now.mono_s)

    def note_end(self, router: Router, number: int, now: Now) -> None:
        """Remember when the neighbour of a link that ends was last here, before the router forgets the link."""
        link = router.links.get(number)
        if link is not None and link.key in router.directory.neighbours:
            self._left_s.pop(link.key, None)
            self._left_s[link.key] = now.mono_s
            if len(self._left_s) > LEFT_MAX:
                del self._left_s[next(iter(self._left_s))]

    def remove(self, number: int) -> None:
        self.writers.pop(number, None)
        self.measured.pop(number, None)

    def away_s(self, key: bytes, now: Now) -> float | None:
        """Return the seconds since the last link of a neighbour ended; None if it had none since this node started."""
        left_s = self._left_s.get(key)
        return None if left_s is None else round(now.mono_s - left_s, 3)
