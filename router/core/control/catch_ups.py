"""News about missed messages: for the pub/sub service of this node, and from it for the apps (R-C35)."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from router.core.neighbours.directory import UNKNOWN, Standing
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey
from router.core.wire.link_items import Missed
from router.core.wire.now import Now
from router.service.verbs.caught_up import CaughtUp, GroupCaughtUp, SaidCaughtUp
from router.service.verbs.dropped import Dropped

from .part import ControlPart, Hears

DROPPED_MAX = 1_000
FIGURES_MAX = 1_000
KEPT_S = 7 * 86_400
JOINED_LATER_S = 86_400
"""Seconds for which an app that joins a group later is still told how the group caught up."""


class _Figure:
    """The result of one catching up: `owed` are the apps that were in the group and are to be told, `heard` those that
    were told."""

    __slots__ = ("at_s", "heard", "news", "owed")

    def __init__(self, said: CaughtUp, owed: frozenset[bytes]) -> None:
        self.news = GroupCaughtUp(said.group, said.at_s, said.missing, said.of)
        self.at_s = said.at_s
        self.owed = owed
        self.heard = {bytes(one) for one in said.heard}


class CatchUps(ControlPart):
    """Passes on news about missed messages.

    Messages that neighbours have dropped are remembered until the service is told, for at most `DROPPED_MAX` neighbours
    and groups. The service's results wait here for apps that are away, up to `FIGURES_MAX`; the service keeps them, and
    repeats them after a restart."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._groups = kernel.groups
        self._say = kernel.speaker.say
        self._dropped: Counter[tuple[bytes, bytes]] = Counter()  # by neighbour and group
        self._figures: dict[tuple[bytes, int], _Figure] = {}  # by group and time

    def __repr__(self) -> str:
        return f"<{len(self._dropped)} groups of which the pub/sub service is to be told what was dropped>"

    def dropped(self, number: int, missed: Missed, now: Now) -> None:
        """Tell the pub/sub service that a known neighbour has refused or dropped messages of a group for this node."""
        link = self._links.get(number)
        if link is None or link.app or link.standing in UNKNOWN or missed.group is None:
            return
        if len(self._dropped) < DROPPED_MAX and self._directory.with_role(Role.OVERLAY) is not None:
            self._dropped[link.key, missed.group] += missed.count
        self.tell(now)

    def tick(self, now: Now) -> None:
        """Tell what had no room before."""
        self.tell(now)

    def tell(self, now: Now) -> None:
        """Tell the service and the apps as soon as they are connected and have room."""
        for place, figure in list(self._figures.items()):
            if figure.at_s < now.wall_s - KEPT_S:
                del self._figures[place]
            self._tell_apps(place[0], figure, now)
        service = self._directory.with_role(Role.OVERLAY)
        to = None if service is None else self._links.to(service)
        for (router, group), count in list(self._dropped.items()) if to is not None else ():
            said = Dropped(PublicKey(router), PublicKey(group), count)
            if to is None or to.outgoing.room()[0] < 1 or not self._say(to, said.inquiry(), now):
                return
            del self._dropped[router, group]

    def caught_up(self, link: Link, said: CaughtUp, now: Now) -> dict[str, Any]:
        """Tell the apps in a group the service's result about it; return how many."""
        group = bytes(said.group)
        figure = _Figure(said, frozenset(self._groups.members(group)))
        if said.of:
            while len(self._figures) >= FIGURES_MAX:
                del self._figures[next(iter(self._figures))]
            known = self._figures.setdefault((group, said.at_s), figure)
            known.heard |= figure.heard
            figure = known
        return {"told": self._tell_apps(group, figure, now, is_kept=bool(said.of))}

    def _tell_apps(self, group: bytes, figure: _Figure, now: Now, *, is_kept: bool = True) -> int:
        """Tell the apps in a group that have not heard this, and have the service record which ones have. Return their
        number."""
        service, told = self._directory.with_role(Role.OVERLAY), 0
        to = None if service is None else self._links.to(service)
        is_late = now.wall_s - figure.at_s > JOINED_LATER_S
        for app in self._groups.members(group):
            if app in figure.heard or (is_late and app not in figure.owed) or app in self._directory.services:
                continue
            link = self._links.to(app)
            if link is None or link.standing is not Standing.LOCAL or (is_kept and to is None):
                continue
            if self._say(link, figure.news.inquiry(), now):
                told += 1
                figure.heard.add(app)
                if is_kept and to is not None:
                    said = SaidCaughtUp(PublicKey(group), figure.at_s, PublicKey(app))
                    self._say(to, said.inquiry(), now)
        return told

    HEARS: ClassVar[Hears] = {CaughtUp: caught_up}
