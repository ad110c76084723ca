"""A connection that a service wants at once."""

from __future__ import annotations

from typing import ClassVar

from router.core.wire.crypto import PublicKey

from .verb import Request


class Dial(Request, frozen=True):
    """Connect to a neighbour now, unless it is connected; `NeighbourUnreachable` follows if that fails."""

    WORD: ClassVar[str] = "dial"

    key: PublicKey
