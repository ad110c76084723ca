"""The wanted groups, as reported to the pub/sub and the discovery service of this node by SUB and UNSUB (R-C12, R-C13,
R-C14, R-C27). The discovery service compares them with those of LAN neighbours (R-D20)."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import NamedTuple

from msgspec import Struct, field

from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.core.wire.pubsub import Wanted
from router.service.verbs.groups_wanted import GroupsWanted

from .hints import Hints
from .part import Part

AGAIN_S = 5
OPEN_MAX = 256
"""Most groups of which a service has been told and that it has not acknowledged; of others it is told then."""
TOGETHER_MIN = 8
"""From this number on, groups that are wanted are told together for the first time, as each SUB is signed."""
ROLES = (Role.OVERLAY, Role.FINDER)


class _Told(NamedTuple):
    """What a service was told of a group (`wanted`: SUB, else UNSUB), and when."""

    wanted: bool
    at_s: float


class _Service(Struct):
    """The groups of which a service has yet to be told, and those told that it has not acknowledged, by time."""

    waiting: dict[bytes, None] = field(default_factory=dict)
    told: dict[bytes, _Told] = field(default_factory=dict)

    def forget(self, group: bytes) -> None:
        self.waiting.pop(group, None)
        self.told.pop(group, None)


class WantedGroups(Part):
    """Tells both services when a group becomes wanted or is not wanted any more, and repeats each message until it is
    acknowledged.

    A service that connects is told of all wanted groups, and of the unwanted ones that it has joined or not yet let go.
    The pub/sub service gets the hints with each SUB (R-C28)."""

    def __init__(self, kernel: Kernel, hints: Hints) -> None:
        self._directory = kernel.directory
        self._groups = kernel.groups
        self._links = kernel.links
        self._say = kernel.speaker.say
        self._hints = hints
        self._services: dict[bytes, _Service] = {}

    def __repr__(self) -> str:
        count = sum(len(one.waiting) + len(one.told) for one in self._services.values())
        return f"<{count} groups that services have not acknowledged>"

    def is_service(self, key: bytes) -> bool:
        return any(self._directory.has_role(key, role) for role in ROLES)

    def changed(self, group: bytes, now: Now) -> None:
        """Tell the services that are connected that a group has become wanted or is not wanted any more."""
        for key in map(self._directory.with_role, ROLES):
            link = None if key is None else self._links.to(key)
            if link is not None:
                self._put(link, group, now)
            elif key in self._services and self._groups.is_wanted(group):
                self._services[key].forget(group)  # an UNSUB that is overtaken

    def hinted(self, group: bytes, now: Now) -> None:
        """Tell the pub/sub service of new hints: with another SUB, or alone if it takes part in the group only because
        something is published there."""
        key = self._directory.with_role(Role.OVERLAY)
        link = None if key is None else self._links.to(key)
        if link is None:
            return
        if self._groups.is_wanted(group):
            self._put(link, group, now)
        elif self._groups.get(group, link.key) is not None:
            self.takes_part(link, group, now)

    def takes_part(self, link: Link, group: bytes, now: Now) -> None:
        """Tell the pub/sub service, which takes part in a group, the hints that do not come with a SUB, as nobody here
        has joined."""
        if self._directory.has_role(link.key, Role.OVERLAY) and not self._groups.is_wanted(group):
            for hinted in self._hints.of(group):
                self._say(link, hinted, now)

    def link_up(self, link: Link, now: Now) -> None:
        """Tell a service that came up which groups are wanted, and which of its own are not any more."""
        if not self.is_service(link.key):
            return
        service = self._services.setdefault(link.key, _Service())
        joined = self._groups.joined_by(link.key) - {link.key}
        service.waiting = dict.fromkeys((*service.waiting, *self._groups.wanted(), *sorted(joined)))
        self.tell_more(link, now)

    def link_down(self, link: Link, now: Now) -> None:
        """Keep the groups that the service must still let go of; all wanted groups are told again."""
        service = self._services.get(link.key)
        if service is not None:
            left = [group for group in (*service.told, *service.waiting) if not self._groups.is_wanted(group)]
            service.waiting, service.told = dict.fromkeys(left), {}

    def acknowledged(self, service: bytes, group: bytes, wanted: bool) -> bool:
        """Handle SUB_ACK (`wanted`) or UNSUB_ACK of a service; return whether it was awaited. Then `tell_more`."""
        told = self._services[service].told if service in self._services else {}
        if group not in told or told[group].wanted is not wanted:
            return False
        del told[group]
        return True

    def tick(self, now: Now) -> None:
        """Repeat what was not acknowledged, and tell what did not fit before."""
        for key, service in self._services.items():
            link = self._links.to(key)
            if link is None:
                continue
            due = takewhile(lambda one: now.mono_s - one[1].at_s >= AGAIN_S, service.told.items())
            for group in [group for group, _ in due]:
                if not self._tell(link, service, group, now):
                    break
            self.tell_more(link, now)

    def tell_more(self, link: Link, now: Now) -> None:
        """Tell a service of further groups, as far as its acknowledgements and the window allow."""
        service = self._services.get(link.key)
        if service is None or not service.waiting:
            return
        groups = list(islice(service.waiting, max(0, OPEN_MAX - len(service.told))))
        together = [group for group in groups if self._groups.is_wanted(group)]
        if len(together) >= TOGETHER_MIN and self._has_room(link):
            said = GroupsWanted(tuple(map(PublicKey, together))).inquiry()
            for group in together if self._say(link, said, now) else ():
                self._note(link, service, group, wanted=True, now=now)
        for group in groups:
            if group in service.waiting and not self._tell(link, service, group, now):
                break

    # -- inside -------------------------------------------------------------------------------------------------

    def _has_room(self, link: Link) -> bool:
        return link.outgoing.room()[0] > 0

    def _put(self, link: Link, group: bytes, now: Now) -> None:
        service = self._services.setdefault(link.key, _Service())
        service.forget(group)
        if len(service.told) >= OPEN_MAX or not self._tell(link, service, group, now):
            service.waiting[group] = None

    def _tell(self, link: Link, service: _Service, group: bytes, now: Now) -> bool:
        """Send SUB or UNSUB, if there is room; return whether there was."""
        wanted = self._groups.is_wanted(group)
        if not self._has_room(link) or not self._say(link, Wanted(PublicKey(group), wanted), now):
            return False
        self._note(link, service, group, wanted=wanted, now=now)
        return True

    def _note(self, link: Link, service: _Service, group: bytes, *, wanted: bool, now: Now) -> None:
        """Record that a service has been told, at the end of those told, and send hints after a SUB; if they have no
        room, it is told again."""
        service.forget(group)
        service.told[group] = _Told(wanted, now.mono_s)
        hints = self._hints.of(group) if wanted and self._directory.has_role(link.key, Role.OVERLAY) else ()
        if not all(self._say(link, hinted, now) for hinted in hints):
            service.waiting[group] = None
