"""The wanted groups, as reported to the pub/sub and the discovery service of this node by SUB and UNSUB (R-C12, R-C13,
R-C14, R-C27). The discovery service compares them with those of LAN neighbours (R-D20)."""

from __future__ import annotations

from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.core.wire.pubsub import Wanted

from .hints import Hints
from .part import ControlPart

AGAIN_S = 5


ROLES = (Role.OVERLAY, Role.FINDER)


class WantedGroups(ControlPart):
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
        self._open: dict[tuple[bytes, bytes], tuple[bool, float]] = {}
        """By service and group: SUB or UNSUB, and when it was sent (0: not yet)."""

    def __repr__(self) -> str:
        return f"<{len(self._open)} groups that services have not acknowledged>"

    def is_service(self, key: bytes) -> bool:
        return any(self._directory.has_role(key, role) for role in ROLES)

    def changed(self, group: bytes, now: Now) -> None:
        """Tell the services that are connected that a group has become wanted or is not wanted any more."""
        for key in map(self._directory.with_role, ROLES):
            link = None if key is None else self._links.to(key)
            if link is not None:
                self._ask(link, group, now)
            elif key is not None and self._groups.is_wanted(group):
                self._open.pop((key, group), None)  # an UNSUB that is overtaken

    def hinted(self, group: bytes, now: Now) -> None:
        """Tell the pub/sub service of new hints, with another SUB."""
        key = self._directory.with_role(Role.OVERLAY)
        link = None if key is None else self._links.to(key)
        if link is not None:
            self._ask(link, group, now)

    def link_up(self, link: Link, now: Now) -> None:
        """Tell a service that came up which groups are wanted, and which of its own are not any more."""
        if not self.is_service(link.key):
            return
        joined = self._groups.joined_by(link.key) - {link.key}
        for group in (*self._groups.wanted(), *sorted(joined)):
            self._open[link.key, group] = self._groups.is_wanted(group), 0
        self.ask_again(now)

    def link_down(self, link: Link, now: Now) -> None:
        """Keep the groups that the service must still let go of; all wanted groups are told again."""
        if self.is_service(link.key):
            self._open = {
                place: (False, 0) if place[0] == link.key else one
                for place, one in self._open.items()
                if place[0] != link.key or not one[0]
            }

    def acknowledged(self, service: bytes, group: bytes, wanted: bool) -> bool:
        """Handle SUB_ACK (`wanted`) or UNSUB_ACK of a service; return whether it was awaited."""
        awaited = self._open.get((service, group))
        if awaited is None or awaited[0] is not wanted or not awaited[1]:
            return False
        del self._open[service, group]
        return True

    def tick(self, now: Now) -> None:
        """Ask again where no answer has come."""
        self.ask_again(now)

    def ask_again(self, now: Now) -> None:
        """Repeat the messages that were not acknowledged, as far as the windows allow; the rest next time."""
        for (service, group), (_, asked_s) in list(self._open.items()):
            link = self._links.to(service)
            if link is not None and (not asked_s or now.mono_s - asked_s >= AGAIN_S):
                self._ask(link, group, now)

    def _ask(self, link: Link, group: bytes, now: Now) -> None:
        wanted, has_room = self._groups.is_wanted(group), link.outgoing.room()[0] > 0
        self._open[link.key, group] = wanted, now.mono_s if has_room else 0
        if has_room:
            self._say(link, Wanted(PublicKey(group), wanted), now)
            if wanted and self._directory.has_role(link.key, Role.OVERLAY):
                for hinted in self._hints.of(group):
                    self._say(link, hinted, now)
