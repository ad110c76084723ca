"""Groups that a service shares with another router, by agreement with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from msgspec import Meta

from router.core.wire.crypto import PublicKey
from router.core.wire.heard import Heard

from .forms import Seconds
from .verb import Request

GROUPS_MAX = 512
"""Most groups of one page."""
PAGES_MAX = 32


class ShareGroups(Request, frozen=True):
    """Let a router bring messages of these groups and pull them, until that Unix second of the clock that the
    service reads, for two hours at most.

    This replaces what the service agreed on with that router before; no groups end it. More than `GROUPS_MAX` groups
    come in pages, one after the other: `more` says that another one follows, and all hold once the last is there. A
    `page` other than 0 without groups lets what was agreed last until then. It is forgotten when the node starts
    again. `lan`: the router is a neighbour on a LAN: both join the groups at each other, and the agreement also
    holds while it is away (`queues.lan_keep_s`) and after a restart; else `GroupsShared` follows."""

    WORD: ClassVar[str] = "agree"

    key: PublicKey
    groups: Annotated[tuple[PublicKey, ...], Meta(max_length=GROUPS_MAX)] = ()
    until_s: Seconds = 0
    lan: bool = False
    page: Annotated[int, Meta(ge=0, lt=PAGES_MAX)] = 0
    more: bool = False

    def answered(self, answer: Mapping[str, Any]) -> Sequence[Heard]:
        """Return whether the router has agreed on all groups; if this is not the last page of them, only whether it has
        failed. A LAN neighbour's one page is made again instead."""
        is_done = "error" not in answer and (self.more or not self.until_s or bool(answer.get("agreed")))
        is_last = not self.more and (bool(self.groups) or not self.page)
        return () if self.lan or (is_done and not is_last) else (GroupsShared(self.key, is_done),)

    @classmethod
    def pages(cls, key: PublicKey, groups: Sequence[PublicKey], until_s: int) -> Iterator[Self]:
        """Yield the requests for all these groups, which end an agreement if there are none; at most `GROUPS_MAX *
        PAGES_MAX` are shared."""
        count = max(1, min(PAGES_MAX, -(-len(groups) // GROUPS_MAX)))
        for at in range(count):
            some = tuple(groups[at * GROUPS_MAX : (at + 1) * GROUPS_MAX])
            yield cls(key, some, until_s, page=at, more=at + 1 < count)


class GroupsShared(Heard, frozen=True):
    """The own router has agreed with this one on the groups that `ShareGroups` said last, or (`is_done` is False) has
    refused a page, so all must be said again: it may agree on others, or on none."""

    key: PublicKey
    is_done: bool
