"""What the pub/sub service of this node hears of messages that were missed, and what its apps hear of it (R-C35)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from router.core.wire.admin import CAUGHT_UP, DROPPED, Inquiry
from router.core.wire.link_items import Missed

from .directory import PUBSUB, UNKNOWN, Directory, Standing
from .effects import Now
from .groups import Groups
from .links import Link, Links

DROPPED_MAX = 1_000

Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class _CaughtUp(Struct, forbid_unknown_fields=True):
    group: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    at_s: Count
    missing: Count = 0
    of: Count = 0


class CatchUps:
    """`say(link, inquiry, now)` sends, and returns whether there was room.

    What neighbours have dropped is remembered until the service is told, of at most `DROPPED_MAX` neighbours and
    groups."""

    def __init__(
        self, directory: Directory, links: Links, groups: Groups, say: Callable[[Link, Inquiry, Now], bool]
    ) -> None:
        self._directory = directory
        self._links = links
        self._groups = groups
        self._say = say
        self._dropped: Counter[tuple[bytes, bytes]] = Counter()  # by neighbour and group

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
        """Tell the service, as soon as it is connected and has room."""
        service = self._directory.service_called(PUBSUB)
        to = None if service is None else self._links.to(service)
        for (router, group), count in list(self._dropped.items()) if to is not None else ():
            said = {"router": router.hex(), "group": group.hex(), "count": count}
            if to is None or to.outgoing.room()[0] < 1 or not self._say(to, Inquiry(DROPPED, json.dumps(said)), now):
                return
            del self._dropped[router, group]

    def caught_up(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        """Tell the apps that are in a group what the pub/sub service says of it."""
        if not self._directory.has_role(by, PUBSUB):
            return {"error": f'only the service called "{PUBSUB}" catches up'}
        said = msgspec.json.decode(argument, type=_CaughtUp)
        told = 0
        for subscriber in self._groups.members(bytes.fromhex(said.group)):
            link = self._links.to(subscriber)
            if link is not None and link.standing is Standing.LOCAL and subscriber not in self._directory.services:
                self._say(link, Inquiry(CAUGHT_UP, argument), now)
                told += 1
        return {"told": told}
