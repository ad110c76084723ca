"""The parts that the services of this node take in groups that are wanted: many groups in one request (R-C27)."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.routing.links import Link
from router.core.wire.control import JoinAck, LeaveAck
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs import take_part as t

from .membership import Membership
from .part import Hears, Part
from .published import PublishedIds
from .wanted import WantedGroups


class TakingPart(Part):
    """Joins and leaves for a service, and hears its acknowledgements."""

    def __init__(self, membership: Membership, wanted: WantedGroups, published: PublishedIds) -> None:
        self._membership = membership
        self._wanted = wanted
        self._published = published

    def take_parts(self, link: Link, said: t.TakeParts, now: Now) -> dict[str, Any]:
        """Handle the parts of a service; return how many groups it was not let into."""
        refused = sum([not self._take(link, *one, now) for one in zip(said.groups, said.parts, strict=True)])
        self._wanted.tell_more(link, now)
        return {"refused": refused}

    def _take(self, link: Link, group: PublicKey, part: t.Part, now: Now) -> bool:
        """Handle one part; return False if a service is not let into the group, which then counts as declined."""
        match part:
            case "whole" | "ids":
                is_in = self._membership.join_service(link, group, now)
                if is_in:
                    self._membership.begin_fan_out(link, group, now)
                    self._published.wish(group, part == "ids")
                    self._wanted.takes_part(link, group, now)
                self._membership.acknowledged(link, JoinAck(group, is_in), now)
                return is_in
            case "taken" | "declined":
                self._membership.acknowledged(link, JoinAck(group, part == "taken"), now)
            case "none":
                self._membership.leave_service(link, group, now)
                self._membership.acknowledged(link, LeaveAck(group, True), now)
            case "let go":
                self._membership.acknowledged(link, LeaveAck(group, True), now)
        return True

    HEARS: ClassVar[Hears] = {t.TakeParts: take_parts}
