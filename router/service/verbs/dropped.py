"""Messages of a group that another router has dropped for this one."""

from __future__ import annotations

from typing import ClassVar

from router.core.wire.crypto import PublicKey

from .verb import News


class Dropped(News, frozen=True):
    """Another router has refused or dropped that many messages of a group for this one."""

    WORD: ClassVar[str] = "dropped"

    router: PublicKey
    group: PublicKey
    count: int
