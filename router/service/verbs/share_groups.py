"""Groups that a service shares with another router, by agreement with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Annotated, ClassVar, Self

from msgspec import Meta

from router.core.wire.crypto import PublicKey

from .forms import Seconds
from .verb import Request

GROUPS_MAX = 512
"""Most groups of one page."""
PAGES_MAX = 32


class ShareGroups(Request, frozen=True):
    """Let a router bring messages of these groups and pull them, until that Unix second of the clock that the
    service reads, for two hours at most.

    This replaces what the service agreed on with that router before; no groups end it. More than `GROUPS_MAX` groups
    come in pages: those with a `page` other than 0 are added to the pages before. It is forgotten when the node starts
    again. `lan`: the router is a neighbour on a LAN: both join the groups at each other, and the agreement also
    holds while it is away (`queues.lan_keep_s`) and after a restart."""

    WORD: ClassVar[str] = "agree"

    key: PublicKey
    groups: Annotated[tuple[PublicKey, ...], Meta(max_length=GROUPS_MAX)] = ()
    until_s: Seconds = 0
    lan: bool = False
    page: Annotated[int, Meta(ge=0, lt=PAGES_MAX)] = 0

    @property
    def about(self) -> Hashable:
        return self.WORD, self.key, self.page

    @classmethod
    def pages(cls, key: PublicKey, groups: Sequence[PublicKey], until_s: int) -> Iterator[Self]:
        """Yield the requests for all these groups, which end an agreement if there are none; at most `GROUPS_MAX *
        PAGES_MAX` are shared. Another page than 0 without groups lets an agreement last until then."""
        for at in range(max(1, min(PAGES_MAX, -(-len(groups) // GROUPS_MAX)))):
            yield cls(key, tuple(groups[at * GROUPS_MAX : (at + 1) * GROUPS_MAX]), until_s, page=at)
