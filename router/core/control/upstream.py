"""JOINs of this router at its neighbours: at uplinks, and at LAN neighbours (R-C23, R-C25).

At an uplink it joins every group that is wanted here; at a LAN neighbour those of them that were agreed on with it,
with `local = true`, because its messages are for this node alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.core.log import events as ev
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.control import Join, Leave
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now

from .hints import Hints
from .part import Part

JOIN_AGAIN_S = 5


class Upstream(Part):
    """Repeats each JOIN until it is acknowledged on the present link."""

    def __init__(self, kernel: Kernel, hints: Hints) -> None:
        self._directory = kernel.directory
        self._groups = kernel.groups
        self._links = kernel.links
        self._pending = kernel.pending
        self._say = kernel.speaker.say
        self._hints = hints
        self._asked: dict[tuple[bytes, bytes], float] = {}  # (neighbour, group) of an open JOIN: when sent, 0: not yet
        self._member: set[tuple[bytes, bytes]] = set()  # (neighbour, group): acknowledged on the present link

    def __repr__(self) -> str:
        return f"<{len(self._member)} groups joined at neighbours, {len(self._asked)} JOINs open>"

    def link_up(self, link: Link, now: Now) -> None:
        """Ask an uplink or LAN neighbour that came up for its groups."""
        if link.uplink or self._directory.agreements.lan:
            self._forget(link.key)
            self.admitted(link, now)

    def link_down(self, link: Link, now: Now) -> None:
        """Forget what was asked and joined there."""
        if link.uplink or self._directory.agreements.lan:
            self._forget(link.key)

    def admitted(self, link: Link, now: Now) -> None:
        """Ask a neighbour, which may have admitted us only now, for every group that it has not let us join."""
        for group in self._of(link):
            if (link.key, group) not in self._member:
                self._asked[link.key, group] = 0
        self.ask_again(now)

    def uplink_ends(self, link: Link, now: Now) -> None:
        """Leave all groups at a neighbour that is no longer our uplink."""
        self._leave(link, (group for key, group in (*self._asked, *self._member) if key == link.key), now)

    def agreed(self, router: bytes, now: Now) -> None:
        """Join the groups agreed on at a connected LAN neighbour, and leave there those that are not agreed on any
        more."""
        link = self._links.to(router)
        if link is None or link.uplink:
            return
        shared = self._directory.lan_groups(router)
        places = (*self._asked, *self._member)
        self._leave(link, (group for key, group in places if key == router and group not in shared), now)
        if shared:
            self.admitted(link, now)

    def joined(self, link: Link, group: bytes, now: Now) -> None:
        """Repeat our own JOIN at once at a LAN neighbour that has joined, since it has agreed by now, too."""
        if (link.key, group) in self._asked and self._directory.is_lan(link.key, group):
            self._ask(link, group, now)

    def joined_at(self, uplink: bytes) -> tuple[int, int]:
        """Return how many groups an uplink has let us join, and how many we want."""
        wanted = self._groups.wanted()
        return sum((uplink, group) in self._member for group in wanted), len(wanted)

    def tick(self, now: Now) -> None:
        """Ask again where no answer has come."""
        self.ask_again(now)

    def ask_again(self, now: Now) -> None:
        """Repeat each JOIN that was not acknowledged, as far as the link's window allows; the rest next time."""
        for (key, group), asked_s in list(self._asked.items()):
            link = self._links.to(key)
            if link is not None and (not asked_s or now.mono_s - asked_s >= JOIN_AGAIN_S):
                self._ask(link, group, now)

    def changed(self, group: bytes, wanted: bool, now: Now) -> None:
        """Join a group that is wanted from now on, or leave one that is not wanted any more."""
        for key in (*self._directory.uplinks, *self._directory.lan_sharing(group)):
            link = self._links.to(key)
            if link is None:
                continue
            if wanted:
                self._ask(link, group, now)
            else:
                self._leave(link, (group,), now)

    def hinted(self, group: bytes, now: Now) -> None:
        """Tell new hints to the uplinks at which the group is joined; other uplinks get them with the JOIN."""
        for key in self._directory.uplinks:
            link = self._links.to(key)
            if link is not None and (key, group) in (self._asked.keys() | self._member):
                self._tell_hints(link, group, now)

    def not_wanted(self, link: Link, group: bytes, now: Now) -> None:
        """Send a LEAVE to a neighbour that sent a message of a group nobody here has joined."""
        if not self._groups.is_wanted(group) and (link.uplink or self._directory.is_lan(link.key, group)):
            self._leave(link, (group,), now)

    def heard_ack(self, link: Link, group: bytes, success: bool, now: Now) -> None:
        """Handle a JOIN_ACK. A LAN neighbour that refuses is asked again, because it may not have agreed yet."""
        place = link.key, group
        if self._asked.pop(place, None) is None and (success or place not in self._member):
            return  # never asked, or no longer wanted
        if success:
            self._member.add(place)
            return
        self._member.discard(place)  # the neighbour may also revoke the right later
        if self._directory.is_lan(link.key, group):
            self._asked[place] = now.mono_s
        else:
            fields = (("subscriber", self._directory.me), ("group", group), ("refused_by", link.key))
            self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "join", fields))

    # -- inside -------------------------------------------------------------------------------------------------

    def _of(self, link: Link) -> list[bytes]:
        """Return the groups to join at a neighbour."""
        if link.uplink:
            return self._groups.wanted()
        return [group for group in self._directory.lan_groups(link.key) if self._groups.is_wanted(group)]

    def _ask(self, link: Link, group: bytes, now: Now) -> None:
        if link.outgoing.room()[0] > 0 and not link.shut:
            self._asked[link.key, group] = now.mono_s
            self._say(link, Join(PublicKey(group), not link.uplink), now)
            if link.uplink:
                self._tell_hints(link, group, now)
        else:
            self._asked[link.key, group] = 0

    def _tell_hints(self, link: Link, group: bytes, now: Now) -> None:
        for hinted in self._hints.of(group):
            self._say(link, hinted, now)

    def _leave(self, link: Link, groups: Iterator[bytes] | tuple[bytes, ...], now: Now) -> None:
        for group in dict.fromkeys(groups):
            self._asked.pop((link.key, group), None)
            self._member.discard((link.key, group))
            self._say(link, Leave(PublicKey(group)), now)

    def _forget(self, key: bytes) -> None:
        self._asked = {place: at for place, at in self._asked.items() if place[0] != key}
        self._member = {place for place in self._member if place[0] != key}
