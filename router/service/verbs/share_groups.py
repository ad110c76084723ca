"""Groups that a service shares with another router, by agreement with it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from router.core.wire.crypto import PublicKey

from .forms import Seconds
from .verb import Request

GROUPS_MAX = 512


class ShareGroups(Request, frozen=True):
    """Let a router bring messages of these groups and pull them, until that Unix second, for two hours at most.

    This replaces what the service agreed on with that router before; no groups end it. It is forgotten when the node
    starts again. `lan`: the router is a neighbour on a LAN: both join the groups at each other, and the agreement also
    holds while it is away (`queues.lan_keep_s`) and after a restart."""

    WORD: ClassVar[str] = "agree"

    key: PublicKey
    groups: Annotated[tuple[PublicKey, ...], Meta(max_length=GROUPS_MAX)] = ()
    until_s: Seconds = 0
    lan: bool = False
