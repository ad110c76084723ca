"""Messages of a group that another router has dropped for this one."""

from __future__ import annotations

from typing import ClassVar

from router.core.wire.crypto import PublicKey

from .verb import News


class Dropped(News, frozen=True):
    """Another router has refused or dropped messages of a group for this one; the service with the role `overlay` gets
    this."""

    WORD: ClassVar[str] = "dropped"

    router: PublicKey
    group: PublicKey
    count: int
