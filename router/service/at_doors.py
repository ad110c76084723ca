"""Events and deeds about a service's own doors and the streams that it opens itself. See `router.service.contract`.

Those that come by the thousand are Structs: one is made in a tenth of the time that a frozen dataclass takes.
"""

from __future__ import annotations

from msgspec import Struct

# -- heard ----------------------------------------------------------------------------------------------------------


class Came(Struct, frozen=True):
    """Bytes came in at a door. `peer` names the datagram's sender or the stream; b"" means that a stream has ended.

    `to_group`: a datagram at a multicast door was sent to everybody there."""

    door: str
    peer: str
    data: bytes
    to_group: bool = False


class Opened(Struct, frozen=True):
    """A stream was opened at a door; this comes before its first bytes. `address`: HOST:PORT of its other end, "" at a
    Unix socket; `tag`: that of the `Connect` that opened it."""

    door: str
    peer: str
    address: str = ""
    tag: str = ""


class Unconnected(Struct, frozen=True):
    """The `Connect` with this tag has failed."""

    door: str
    tag: str
    text: str


# -- deeds ----------------------------------------------------------------------------------------------------------


class Write(Struct, frozen=True):
    """Write to the peer of a door; b"" closes a stream."""

    door: str
    peer: str
    data: bytes


class Hand(Struct, frozen=True):
    """Hand a stream of a door over to the router as a link. `first`: bytes of it that came already."""

    door: str
    peer: str
    first: bytes = b""


class Connect(Struct, frozen=True):
    """Open a stream to `tcp://HOST:PORT`, which from then on is one of this door; the door itself need not be open.

    `Opened` with this tag follows, or `Unconnected`."""

    door: str
    url: str
    tag: str
