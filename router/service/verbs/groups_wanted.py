"""Several groups that are wanted, told together."""

from __future__ import annotations

from typing import ClassVar

from router.core.wire.crypto import PublicKey

from .verb import News


class GroupsWanted(News, frozen=True):
    """These groups are wanted from other nodes, as by a `Wanted` of each, which rules hear instead."""

    WORD: ClassVar[str] = "groups-wanted"

    groups: tuple[PublicKey, ...]
