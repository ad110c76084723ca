"""Hints: routers that serve a group, and where they can be reached (R-C28).

    [11, {"addr" "at"}]       to a router: from a local app, or from an edge node, right after JOIN or to publish only
    [14, {"addr" "at"}]       to the pub/sub service of its own node: from the router, with SUB or TakePart

Group links carry the same `at`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import shape
from .address import TransportAddress, encoded_addresses, read_addresses
from .codec import Malformed, TooLarge, decode, encode
from .crypto import PublicKey
from .heard import Heard

HINTS_MAX = 2
HINT_BYTES_MAX = 1024
TO_ROUTER, TO_SERVICE = b"\x82\x0b", b"\x82\x0e"
_ITEMS_MAX = 128


class Hint(NamedTuple):
    """A router that serves a group, and where it can be reached."""

    router: PublicKey
    addresses: tuple[TransportAddress, ...]


class Hinted(Heard, frozen=True):
    """HINT: one or two routers that serve a group, and their addresses, as apps and clients name them; the service
    that carries groups gets this with each `Wanted`, and when it takes part in a group that nobody here has joined."""

    group: PublicKey
    hints: tuple[Hint, ...]


def is_hint(body: bytes) -> bool:
    """Whether a body begins like a HINT, to a router or to a service."""
    return body[:2] in (TO_ROUTER, TO_SERVICE)


def encode_hint(said: Hinted, kind: bytes) -> bytes:
    """Return the body of a HINT; `kind`: `TO_ROUTER` or `TO_SERVICE`. Raise `TooLarge` beyond `HINT_BYTES_MAX`."""
    body = kind + encode({"addr": said.group, "at": encoded_hints(said.hints)})
    if len(body) > HINT_BYTES_MAX:
        raise TooLarge(f"a hint of {len(body)} bytes; the limit is {HINT_BYTES_MAX}")
    return body


def decode_hint(body: bytes) -> Hinted:
    """Return the HINT in a body; else raise `Malformed`."""
    if not is_hint(body):
        raise Malformed("no HINT")
    if len(body) > HINT_BYTES_MAX:
        raise TooLarge(f"a hint of {len(body)} bytes; the limit is {HINT_BYTES_MAX}")
    found = shape.fields(decode(body, _ITEMS_MAX)[1], "HINT", ("addr", "at"))
    return Hinted(shape.checked_key(found["addr"], "addr"), read_hints(found["at"]))


def encoded_hints(hints: tuple[Hint, ...]) -> list[Any]:
    return [[one.router, encoded_addresses(one.addresses)] for one in hints]


def read_hints(value: Any) -> tuple[Hint, ...]:
    """Return the hints with an address of a known kind."""
    rows = [shape.array(one, "a router that serves it", 2, 2) for one in shape.array(value, "at", 1, HINTS_MAX)]
    hints = [Hint(shape.checked_key(key, "at"), read_addresses(addresses, "at")) for key, addresses in rows]
    return tuple([one for one in hints if one.addresses])
