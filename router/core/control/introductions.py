"""Introductions: uplinks learn which apps are kept here (specification, "Unicast routing algorithm", step 2; R-C2).

A router learns the way to a key from a message that this key has signed. An app that only receives signs none that its
uplinks see. So this router asks it for one, by the inquiry "introduce"; the app signs an answer with a long life, which
this router passes on to its uplinks as it is. An uplink believes it of this router alone, to which it is addressed.
"""

from __future__ import annotations

from msgspec import Struct

from router.core.neighbours.directory import Standing
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.admin import INTRODUCE, Inquiry
from router.core.wire.lifetime import expiry_s
from router.core.wire.now import Now

from .part import Part

LOOK_S = 60
AGAIN_S = 3600
"""How often an uplink is told all of them again: it forgets them with the right `relay`, and may have had no room."""
FRESH_S = 5 * 86_400
"""A connected app is asked for another introduction when its last one is valid for less than this."""


class Introduced(Struct, frozen=True):
    """An app's signed answer in its wire form, and the Unix second at which it ends."""

    wire: bytes
    until_s: int


class Introductions(Part):
    """Has apps introduced to the uplinks, at most `introductions_max`; a further one is not, so that a message to it
    reaches it from beyond this node only after it has written there."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._speaker = kernel.speaker
        self._most = kernel.limits.introductions_max
        self._apps: dict[bytes, Introduced] = {}
        self._asked: set[int] = set()  # links of apps that have not answered
        self._told: dict[int, dict[bytes, int]] = {}  # by the link of an uplink: the end of what it was told of each
        self._looked_s = self._told_all_s = 0.0

    def __repr__(self) -> str:
        return f"<{len(self._apps)} of at most {self._most} apps are introduced to {len(self._told)} uplinks>"

    def link_up(self, link: Link, now: Now) -> None:
        """Ask an app for its introduction; tell an uplink all that are known."""
        if link.uplink:
            self._tell(link, now)
        elif self._directory.uplinks:
            self._ask(link, now)

    def link_down(self, link: Link, now: Now) -> None:
        """Forget what was asked and told there."""
        self._asked.discard(link.id)
        self._told.pop(link.id, None)

    def tick(self, now: Now) -> None:
        """Tell uplinks what had no room; look once a minute which introductions have ended or are missing."""
        uplinks = [link for link in map(self._links.to, self._directory.uplinks) if link is not None]
        if now.mono_s - self._looked_s >= LOOK_S:
            self._looked_s = now.mono_s
            self._end(now)
            for link in self._links if self._directory.uplinks else ():
                self._ask(link, now)
        if now.mono_s - self._told_all_s >= AGAIN_S:
            self._told_all_s = now.mono_s
            self._told.clear()
        for link in uplinks:
            self._tell(link, now)

    def awaits(self, link: Link) -> bool:
        """Whether an app was asked and has not answered yet."""
        return link.id in self._asked

    def answered(self, link: Link, wire: bytes, expiry_min: int, now: Now) -> None:
        """Keep the introduction of an app that was asked for one, and tell the uplinks."""
        self._asked.discard(link.id)
        if link.key in self._apps or len(self._apps) < self._most:
            self._apps[link.key] = Introduced(wire, expiry_s(expiry_min))
            for uplink in map(self._links.to, self._directory.uplinks):
                if uplink is not None:
                    self._tell(uplink, now)

    def _ask(self, link: Link, now: Now) -> None:
        """Ask an app that this node keeps, or a service that others may reach, unless it has answered lately."""
        known = self._apps.get(link.key)
        is_fresh = known is not None and known.until_s - now.judged_s > FRESH_S
        has_room = known is not None or len(self._apps) < self._most
        if is_fresh or not has_room or link.id in self._asked or not self._is_kept_app(link):
            return
        if self._speaker.say(link, Inquiry(INTRODUCE), now):
            self._asked.add(link.id)

    def _is_kept_app(self, link: Link) -> bool:
        directory, service = self._directory, self._directory.services.get(link.key)
        is_app = link.standing is Standing.LOCAL and link.app and link.key in directory.locals
        return is_app and (service is None or (service.role is None and link.key in directory.public))

    def _tell(self, link: Link, now: Now) -> None:
        """Tell an uplink the introductions that it does not have on this link, as far as there is room."""
        if link.shut or not link.uplink:
            return
        told = self._told.setdefault(link.id, {})
        for key, one in self._apps.items():
            if told.get(key) != one.until_s and one.until_s > now.judged_s:
                if not self._speaker.pass_on(link, one.wire):
                    return
                told[key] = one.until_s

    def _end(self, now: Now) -> None:
        """Forget the introductions that have ended, and those of apps that this node does not keep any more."""
        for key, one in list(self._apps.items()):
            if one.until_s <= now.judged_s or key not in self._directory.locals:
                del self._apps[key]
                for told in self._told.values():
                    told.pop(key, None)
