"""Catching up with other nodes after an absence: what a service has fetched, and which apps have been told so."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, ClassVar

from msgspec import Meta

from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey

from .forms import Count
from .verb import News, Request

CAUGHT_UP = "caught-up"


class CaughtUp(Request, frozen=True):
    """Tell the group's apps on this node that the messages they missed have come, but for `missing` of `of`, which had
    expired everywhere at that Unix second.

    If any were missed, each app is told as soon as it is connected, except those in `heard`; `SaidCaughtUp` follows for
    each."""

    WORD: ClassVar[str] = CAUGHT_UP
    ROLES: ClassVar[frozenset[Role]] = frozenset((Role.OVERLAY,))

    group: PublicKey
    at_s: Count
    missing: Count = 0
    of: Count = 0
    heard: Annotated[tuple[PublicKey, ...], Meta(max_length=256)] = ()

    @property
    def about(self) -> Hashable:
        return self.WORD, self.group, self.at_s


class GroupCaughtUp(News, frozen=True):
    """What apps are told of a `CaughtUp`."""

    WORD: ClassVar[str] = CAUGHT_UP

    group: PublicKey
    at_s: int
    missing: int = 0
    of: int = 0


class SaidCaughtUp(News, frozen=True):
    """An app of this node was told the `CaughtUp` of a group with this Unix second."""

    WORD: ClassVar[str] = "said-caught-up"

    group: PublicKey
    at_s: int
    app: PublicKey
