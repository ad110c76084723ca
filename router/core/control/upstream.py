"""JOINs of this router at its neighbours: at uplinks, and at LAN neighbours (R-C23, R-C25).

At an uplink it joins every group that is wanted here; at a LAN neighbour those of them that were agreed on with it,
with `local = true`, because its messages are for this node alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile

from msgspec import Struct, field

from router.core.log import events as ev
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.control import Join, Leave
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now

from .hints import Hints
from .part import Part

JOIN_AGAIN_S = 5
OPEN_MAX = 256
"""Most JOINs at a neighbour that it has not acknowledged; others follow as it does."""
UNJOINED_TOLD_MAX = 64
"""Most groups that nobody here has joined whose hints an uplink is told when it comes up."""


class _At(Struct):
    """The groups of this router at one neighbour, on the present link: those to ask for; those asked for, and those
    that a LAN neighbour has refused, by the time of the JOIN; and those that it has let us join."""

    waiting: dict[bytes, None] = field(default_factory=dict)
    asked: dict[bytes, float] = field(default_factory=dict)
    refused: dict[bytes, float] = field(default_factory=dict)
    member: set[bytes] = field(default_factory=set)

    def __contains__(self, group: bytes) -> bool:
        return group in self.member or self.is_open(group)

    def is_open(self, group: bytes) -> bool:
        """Whether the neighbour has not answered, or was not asked yet."""
        return group in self.asked or group in self.waiting or group in self.refused

    @property
    def all_open(self) -> list[bytes]:
        return [*self.asked, *self.refused, *self.waiting]

    def end(self, group: bytes) -> bool:
        """Forget an open JOIN; return whether there was one."""
        was_open = self.is_open(group)
        self.waiting.pop(group, None)
        self.asked.pop(group, None)
        self.refused.pop(group, None)
        return was_open

    def let_wait(self, now_s: float) -> None:
        """Let the groups that were refused long enough ago wait with the others to be asked for."""
        for group in _due(self.refused, now_s):
            del self.refused[group]
            self.waiting[group] = None


def _due(times: dict[bytes, float], now_s: float) -> list[bytes]:
    """Return the groups to ask for again."""
    return [group for group, _ in takewhile(lambda one: now_s - one[1] >= JOIN_AGAIN_S, times.items())]


class Upstream(Part):
    """Repeats each JOIN until it is acknowledged on the present link."""

    def __init__(self, kernel: Kernel, hints: Hints) -> None:
        self._directory = kernel.directory
        self._groups = kernel.groups
        self._links = kernel.links
        self._pending = kernel.pending
        self._say = kernel.speaker.say
        self._hints = hints
        self._places: dict[bytes, _At] = {}  # by neighbour

    def __repr__(self) -> str:
        places = self._places.values()
        joined, count = sum(len(one.member) for one in places), sum(len(one.all_open) for one in places)
        return f"<{joined} groups joined at neighbours, {count} JOINs open>"

    def link_up(self, link: Link, now: Now) -> None:
        """Ask an uplink or LAN neighbour that came up for its groups, and tell an uplink the latest hints of groups in
        which apps only publish."""
        if link.uplink or self._directory.agreements.lan:
            self._places.pop(link.key, None)
            self.admitted(link, now)
        for group in self._hints.unjoined(UNJOINED_TOLD_MAX) if link.uplink else ():
            self._tell_hints(link, group, now)

    def link_down(self, link: Link, now: Now) -> None:
        """Forget what was asked and joined there."""
        self._places.pop(link.key, None)

    def admitted(self, link: Link, now: Now) -> None:
        """Ask a neighbour, which may have admitted us only now, for every group that it has not let us join."""
        groups = self._of(link)
        if groups:
            at = self._places.setdefault(link.key, _At())
            at.waiting |= dict.fromkeys(group for group in groups if group not in at.member)
            at.asked.clear()
            at.refused.clear()
            self._ask_more(link, at, now)

    def uplink_ends(self, link: Link, now: Now) -> None:
        """Leave all groups at a neighbour that is no longer our uplink."""
        self._leave(link, self._all_at(link.key), now)

    def agreed(self, router: bytes, now: Now) -> None:
        """Join the groups agreed on at a connected LAN neighbour, and leave there those that are not agreed on any
        more."""
        link = self._links.to(router)
        if link is None or link.uplink:
            return
        shared = self._directory.lan_groups(router)
        self._leave(link, [group for group in self._all_at(router) if group not in shared], now)
        if shared:
            self.admitted(link, now)

    def joined(self, link: Link, group: bytes, now: Now) -> None:
        """Repeat our own JOIN at once at a LAN neighbour that has joined, since it has agreed by now, too."""
        at = self._places.get(link.key)
        if at is not None and at.is_open(group) and self._directory.is_lan(link.key, group):
            self._ask(link, at, group, now)

    def joined_at(self, uplink: bytes) -> tuple[int, int]:
        """Return how many groups an uplink has let us join, and how many we want."""
        wanted, at = self._groups.wanted(), self._places.get(uplink)
        return 0 if at is None else sum(group in at.member for group in wanted), len(wanted)

    def tick(self, now: Now) -> None:
        """Repeat each JOIN that was not acknowledged, and send others that have waited."""
        for key, at in self._places.items():
            link = self._links.to(key)
            if link is None:
                continue
            at.let_wait(now.mono_s)
            for group in _due(at.asked, now.mono_s):
                if not self._ask(link, at, group, now):
                    break
            self._ask_more(link, at, now)

    def changed(self, group: bytes, wanted: bool, now: Now) -> None:
        """Join a group that is wanted from now on, or leave one that is not wanted any more."""
        for key in (*self._directory.uplinks, *self._directory.lan_sharing(group)):
            link = self._links.to(key)
            if link is None:
                continue
            if wanted:
                at = self._places.setdefault(key, _At())
                at.end(group)
                at.waiting[group] = None
                self._ask_more(link, at, now)
            else:
                self._leave(link, (group,), now)

    def hinted(self, group: bytes, now: Now) -> None:
        """Tell new hints to the uplinks at which the group is joined, others get them with the JOIN; or to all
        if nobody here has joined, but something is published."""
        is_wanted = self._groups.is_wanted(group)
        for key in self._directory.uplinks:
            link = self._links.to(key)
            if link is not None and (not is_wanted or group in self._places.get(key, ())):
                self._tell_hints(link, group, now)

    def not_wanted(self, link: Link, group: bytes, now: Now) -> None:
        """Send a LEAVE to a neighbour that sent a message of a group nobody here has joined."""
        if not self._groups.is_wanted(group) and (link.uplink or self._directory.is_lan(link.key, group)):
            self._leave(link, (group,), now)

    def heard_ack(self, link: Link, group: bytes, success: bool, now: Now) -> None:
        """Handle a JOIN_ACK. A LAN neighbour that refuses is asked again, because it may not have agreed yet."""
        at = self._places.get(link.key)
        if at is None:
            return
        was_open = at.end(group)
        self._ask_more(link, at, now)
        if not was_open and (success or group not in at.member):
            return  # never asked, or no longer wanted
        if success:
            at.member.add(group)
            return
        at.member.discard(group)  # the neighbour may also revoke the right later
        if self._directory.is_lan(link.key, group):
            at.refused[group] = now.mono_s
        else:
            fields = (("subscriber", self._directory.me), ("group", group), ("refused_by", link.key))
            self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "join", fields))

    # -- inside -------------------------------------------------------------------------------------------------

    def _of(self, link: Link) -> list[bytes]:
        """Return the groups to join at a neighbour."""
        if link.uplink:
            return self._groups.wanted()
        return [group for group in self._directory.lan_groups(link.key) if self._groups.is_wanted(group)]

    def _all_at(self, key: bytes) -> list[bytes]:
        at = self._places.get(key)
        return [] if at is None else [*at.all_open, *at.member]

    def _ask_more(self, link: Link, at: _At, now: Now) -> None:
        """Send the JOINs that wait, as far as the neighbour has acknowledged others and the window allows."""
        for group in list(islice(at.waiting, max(0, OPEN_MAX - len(at.asked)))):
            if not self._ask(link, at, group, now):
                return

    def _ask(self, link: Link, at: _At, group: bytes, now: Now) -> bool:
        """Send a JOIN, if there is room; return whether there was. Otherwise it waits."""
        has_room = link.outgoing.room()[0] > 0 and not link.shut
        if not has_room or not self._say(link, Join(PublicKey(group), not link.uplink), now):
            if group not in at.waiting:
                at.end(group)
                at.waiting[group] = None
            return False
        at.end(group)
        at.asked[group] = now.mono_s
        if link.uplink:
            self._tell_hints(link, group, now)
        return True

    def _tell_hints(self, link: Link, group: bytes, now: Now) -> None:
        for hinted in self._hints.of(group):
            self._say(link, hinted, now)

    def _leave(self, link: Link, groups: Iterable[bytes], now: Now) -> None:
        at = self._places.get(link.key, _At())
        for group in dict.fromkeys(groups):
            at.end(group)
            at.member.discard(group)
            self._say(link, Leave(PublicKey(group)), now)
