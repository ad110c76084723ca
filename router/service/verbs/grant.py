"""Rights that a service gives to a key."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from router.core.wire.crypto import PublicKey

from .forms import Seconds
from .verb import Request


class Grant(Request, frozen=True):
    """Give a key rights (join, store, relay, why) until that Unix second; no rights take them back.

    `uses`: how often the key may sign on with them; 0: without a limit.
    """

    WORD: ClassVar[str] = "grant"

    key: PublicKey
    rights: Annotated[tuple[str, ...], Meta(max_length=8)] = ()
    until_s: Seconds = 0
    uses: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
