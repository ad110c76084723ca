"""Whereabouts: a router's signed statement of the addresses at which it is reached (cddl/whereabouts.cddl).

    [15 {"id" "at" "rev" "sig"}]      to a router: from the router that it is about, or from another one that was asked
    [16 {"id"}]                       to a router: a question for the whereabouts of a third one

It has no end, unlike an advertisement, because a neighbour may be away for weeks; of two the greater `rev` counts.
`decode_whereabouts` checks size and form, at a small bounded cost; the signature is checked by `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from . import shape
from .address import TransportAddress, read_address
from .codec import Malformed, TooLarge, decode, encode
from .crypto import PublicKey, Signature, SigningKey, verify
from .lifetime import UINT32_MAX

PLACES_MAX = 3
"""Most addresses in a statement."""
WHEREABOUTS_BYTES_MAX = 1024
ASK_WHEREABOUTS_BYTES_MAX = 64
WHEREABOUTS = b"\x82\x0f"
ASK_WHEREABOUTS = b"\x82\x10"

_LABEL = b"upsycle whereabouts 1"
_KEYS = ("id", "at", "rev", "sig")
_ITEMS_MAX = 2 + 1 + 2 * len(_KEYS) + PLACES_MAX * 6
_ASK_ITEMS_MAX = 5


class DatedAddress(NamedTuple):
    """An address, and the Unix second from which the router is reached there."""

    address: TransportAddress
    since_s: int


class Whereabouts(Struct, frozen=True):
    """Where the router with this key is reached, in the order in which to try it; `rev` counts Unix milliseconds."""

    router: PublicKey
    places: tuple[DatedAddress, ...]
    rev: int
    signature: Signature
    wire: bytes
    """The signed map, as received."""

    def __repr__(self) -> str:
        places = ", ".join(f"{one.address} since {one.since_s}" for one in self.places)
        return f"<whereabouts of {self.router.hex()[:12]}: {places}; rev {self.rev}>"

    def verify(self) -> bool:
        """Whether the router that it is about has signed it."""
        return verify(self.router, _signed(decode(self.wire, _ITEMS_MAX)), self.signature)


class AskWhereabouts(Struct, frozen=True):
    """A question for the whereabouts of a router, which are not told where they are not known."""

    router: PublicKey


def make_whereabouts(key: SigningKey, places: Iterable[DatedAddress], rev: int) -> Whereabouts:
    """Return the statement of the router with that key, signed; raise `ValueError` if others would refuse it."""
    fields = {"id": key.public, "at": [[one.since_s, one.address.encoded()] for one in places], "rev": rev}
    return decode_whereabouts(encode(fields | {"sig": key.sign(_signed(fields))}))


def decode_whereabouts(wire: bytes) -> Whereabouts:
    """Return the statement that a signed map is; else raise `Malformed`. Nothing is verified."""
    if len(wire) > WHEREABOUTS_BYTES_MAX:
        raise TooLarge(f"whereabouts of {len(wire)} bytes; the limit is {WHEREABOUTS_BYTES_MAX}")
    found = shape.fields(decode(wire, _ITEMS_MAX), "whereabouts", _KEYS)
    rows = [shape.array(one, "a place", 2, 2) for one in shape.array(found["at"], "at", 1, PLACES_MAX)]
    places = tuple(DatedAddress(read_address(one, "at"), shape.uint(since, "since", UINT32_MAX)) for since, one in rows)
    return Whereabouts(
        shape.checked_key(found["id"], "id"),
        places,
        shape.uint(found["rev"], "rev"),
        shape.signature(found["sig"], "sig"),
        encode(found),
    )


def is_about_places(body: bytes) -> bool:
    """Whether the body of a unicast to a router begins like whereabouts, or like a question for them."""
    return body[:2] in (WHEREABOUTS, ASK_WHEREABOUTS)


def encode_about_places(said: Whereabouts | AskWhereabouts) -> bytes:
    """Return the body of a unicast to a router."""
    if isinstance(said, Whereabouts):
        return WHEREABOUTS + said.wire
    return ASK_WHEREABOUTS + encode({"id": said.router})


def decode_about_places(body: bytes) -> Whereabouts | AskWhereabouts:
    """Return the statement or question in a body; else raise `Malformed`. Nothing is verified."""
    if body[:2] == WHEREABOUTS:
        return decode_whereabouts(body[2:])
    if body[:2] != ASK_WHEREABOUTS:
        raise Malformed("neither whereabouts nor a question for them")
    if len(body) > ASK_WHEREABOUTS_BYTES_MAX:
        raise TooLarge(f"a question of {len(body)} bytes; the limit is {ASK_WHEREABOUTS_BYTES_MAX}")
    found = shape.fields(decode(body[2:], _ASK_ITEMS_MAX), "a question for whereabouts", ("id",))
    return AskWhereabouts(shape.checked_key(found["id"], "id"))


def _signed(fields: Mapping[str, Any]) -> bytes:
    return _LABEL + encode({name: value for name, value in fields.items() if name != "sig"})
