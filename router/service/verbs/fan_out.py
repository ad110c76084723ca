"""The wish of a service to be given what is published here in groups that nobody here reads."""

from __future__ import annotations

from typing import ClassVar

from router.core.service.roles import Role

from .verb import Request


class FanOut(Request, frozen=True):
    """Be given what apps and clients of this node publish in groups that nobody here reads and no uplink takes now, in
    place of its refusal: there may be readers at other nodes. Of what was owed to uplinks that are then found to be
    away the ids are told (`Published`). It holds as long as the service is connected."""

    WORD: ClassVar[str] = "fan-out"
    ROLES: ClassVar[frozenset[Role]] = frozenset((Role.OVERLAY,))
