"""The wish of a service to be given what is published here in groups that nobody here reads."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, ClassVar

from msgspec import Meta

from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey

from .verb import Request

FULL_MAX = 64
"""Most groups that are named as full."""


class FanOut(Request, frozen=True):
    """Be given what apps and clients of this node publish in groups that nobody here reads and no uplink takes now, in
    place of its refusal: there may be readers at other nodes. Of what was owed to uplinks that are then found to be
    away the ids are told (`Published`). It holds as long as the service is connected, and until it is said anew.

    `groups_max`: in how many groups at once; `groups_of_one_max`: how many of these may be wanted because of one app or
    client (all apps with throwaway keys count as one), `groups_of_clients_max`: because of all clients together;
    `full`: the groups of which nothing is taken now; `is_full`: nothing is taken at all. What is beyond that is refused
    (`no-subscribers`) before it is acknowledged."""

    groups_max: Annotated[int, Meta(ge=0)]
    groups_of_one_max: Annotated[int, Meta(ge=0)]
    groups_of_clients_max: Annotated[int, Meta(ge=0)]
    full: Annotated[tuple[PublicKey, ...], Meta(max_length=FULL_MAX)] = ()
    is_full: bool = False

    WORD: ClassVar[str] = "fan-out"
    ROLES: ClassVar[frozenset[Role]] = frozenset((Role.OVERLAY,))

    @property
    def about(self) -> Hashable:
        return self.WORD
