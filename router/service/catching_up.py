"""Events and deeds for catching up with other nodes after an absence, as the pub/sub service does (R-C31, R-C35).

See `router.service.contract`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from router.core.wire.crypto import PublicKey

# -- heard ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldIds:
    """The answer to `ListHeld`: expiry minute (4 bytes, big endian) and id (32) of each message, joined, in the order
    in which the router took them.

    `upto`: the arrival number from which the next page begins; `more`: there is one already. `gone`: a number that
    changes when messages of the group are deleted before their expiry. `times`: Unix seconds, each with the number of
    these messages that came then. `error`: why the router did not answer. `after`: as in the `ListHeld`."""

    group: PublicKey
    keys: bytes = field(default=b"", repr=False)
    upto: int = 0
    more: bool = False
    gone: int = 0
    times: tuple[tuple[int, int], ...] = ()
    error: str = ""
    after: int = 0


class Dropped(Struct, frozen=True):
    """Another router has refused or dropped messages of a group for this one; only `pubsub` gets this event."""

    router: PublicKey
    group: PublicKey
    count: int


class SaidCaughtUp(Struct, frozen=True):
    """An app was told the `CaughtUp` of a group with this Unix second."""

    group: PublicKey
    at_s: int
    app: PublicKey


# -- deeds ----------------------------------------------------------------------------------------------------------


class ListHeld(Struct, frozen=True):
    """Ask for the messages of a group that the own router holds and that arrived after the arrival number `after`."""

    group: PublicKey
    after: int = 0


class CaughtUp(Struct, frozen=True):
    """Tell the group's subscribers on this node that the messages they missed have been fetched, as far as anybody has
    them.

    At that Unix second `missing` of `of` messages had expired everywhere. If any were missing, each subscriber is told
    as soon as it is connected, except those in `heard`; `SaidCaughtUp` follows for each."""

    group: PublicKey
    at_s: int
    missing: int = 0
    of: int = 0
    heard: tuple[PublicKey, ...] = ()
