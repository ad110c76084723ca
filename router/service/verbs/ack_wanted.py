"""The acknowledgement of `Wanted`, which does not travel by a word but as SUB_ACK or UNSUB_ACK (R-C27)."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey

from .verb import Deed


class AckWanted(Deed, frozen=True):
    """Acknowledge a `Wanted`, which comes again every 5 s until then. Without `success` the service takes no part in
    the group, until somebody wants it anew."""

    group: PublicKey
    wanted: bool
    success: bool = True
