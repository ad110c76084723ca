"""News about missed messages: for the pub/sub service of this node, and from it for the apps (R-C35)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from router.core.neighbours.directory import PUBSUB, UNKNOWN, Directory, Standing
from router.core.routing.groups import Groups
from router.core.routing.links import Link, Links
from router.core.wire.admin import CAUGHT_UP, DROPPED, SAID_CAUGHT_UP, Inquiry
from router.core.wire.link_items import Missed
from router.core.wire.now import Now

DROPPED_MAX = 1_000
FIGURES_MAX = 1_000
KEPT_S = 7 * 86_400
JOINED_LATER_S = 86_400
"""Seconds for which an app that joins a group later is still told how the group caught up."""

Count = Annotated[int, Meta(ge=0, le=1 << 53)]


Key = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class _CaughtUp(Struct, forbid_unknown_fields=True):
    group: Key
    at_s: Count
    missing: Count = 0
    of: Count = 0
    heard: Annotated[tuple[Key, ...], Meta(max_length=256)] = ()


class _Figure:
    """The result of one catching up: `owed` are the apps that were in the group and are to be told, `heard` those that
    were told."""

    __slots__ = ("argument", "at_s", "heard", "owed")

    def __init__(self, said: _CaughtUp, owed: frozenset[bytes]) -> None:
        self.argument = json.dumps({"group": said.group, "at_s": said.at_s, "missing": said.missing, "of": said.of})
        self.at_s = said.at_s
        self.owed = owed
        self.heard = {bytes.fromhex(one) for one in said.heard}


class CatchUps:
    """Passes on news about missed messages; `say(link, inquiry, now)` sends, and returns whether there was room.

    Messages that neighbours have dropped are remembered until the service is told, for at most `DROPPED_MAX` neighbours
    and groups. The service's results wait here for apps that are away, up to `FIGURES_MAX`; the service keeps them, and
    repeats them after a restart."""

    def __init__(
        self, directory: Directory, links: Links, groups: Groups, say: Callable[[Link, Inquiry, Now], bool]
    ) -> None:
        self._directory = directory
        self._links = links
        self._groups = groups
        self._say = say
        self._dropped: Counter[tuple[bytes, bytes]] = Counter()  # by neighbour and group
        self._figures: dict[tuple[bytes, int], _Figure] = {}  # by group and time

    def __repr__(self) -> str:
        return f"<{len(self._dropped)} groups of which the pub/sub service is to be told what was dropped>"

    def dropped(self, number: int, missed: Missed, now: Now) -> None:
        """Tell the pub/sub service that a known neighbour has refused or dropped messages of a group for this node."""
        link = self._links.get(number)
        if link is None or link.app or link.standing in UNKNOWN or missed.group is None:
            return
        if len(self._dropped) < DROPPED_MAX and self._directory.service_called(PUBSUB) is not None:
            self._dropped[link.key, missed.group] += missed.count
        self.tell(now)

    def tell(self, now: Now) -> None:
        """Tell the service and the apps as soon as they are connected and have room."""
        for place, figure in list(self._figures.items()):
            if figure.at_s < now.wall_s - KEPT_S:
                del self._figures[place]
            self._tell_apps(place[0], figure, now)
        service = self._directory.service_called(PUBSUB)
        to = None if service is None else self._links.to(service)
        for (router, group), count in list(self._dropped.items()) if to is not None else ():
            said = {"router": router.hex(), "group": group.hex(), "count": count}
            if to is None or to.outgoing.room()[0] < 1 or not self._say(to, Inquiry(DROPPED, json.dumps(said)), now):
                return
            del self._dropped[router, group]

    def caught_up(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        """Tell the apps in a group the pub/sub service's result about it."""
        if not self._directory.has_role(by, PUBSUB):
            return {"error": f'only the service called "{PUBSUB}" catches up'}
        said = msgspec.json.decode(argument, type=_CaughtUp)
        group = bytes.fromhex(said.group)
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
        service, told = self._directory.service_called(PUBSUB), 0
        to = None if service is None else self._links.to(service)
        is_late = now.wall_s - figure.at_s > JOINED_LATER_S
        for app in self._groups.members(group):
            if app in figure.heard or (is_late and app not in figure.owed) or app in self._directory.services:
                continue
            link = self._links.to(app)
            if link is None or link.standing is not Standing.LOCAL or (is_kept and to is None):
                continue
            if self._say(link, Inquiry(CAUGHT_UP, figure.argument), now):
                told += 1
                figure.heard.add(app)
                if is_kept and to is not None:
                    said = {"group": group.hex(), "at_s": figure.at_s, "app": app.hex()}
                    self._say(to, Inquiry(SAID_CAUGHT_UP, json.dumps(said)), now)
        return told
