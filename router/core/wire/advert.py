"""Peer advertisements: a router's signed statement about itself (specification, "Peer Discovery Service").

    [1 {"id" "addr" "svcs" "grps" "rev" "ttl" "exp" "sig"}]

`sig` is over enc(1) and enc(the map without `sig`), which begin with 01 a7, unlike anything else that we sign (R-D1,
R-B7). An advertisement is forwarded as it was received (R-D11), so its bytes are kept. `decode_advertisement` checks
size and form, at a small bounded cost; keys and signature are checked by `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from . import shape
from .address import ADDRESS_ITEMS_MAX, TransportAddress, encoded_addresses, read_addresses
from .codec import Malformed, TooLarge, decode, encode
from .crypto import KEY_BYTES, InvalidKey, PublicKey, Signature, SigningKey, verify
from .lifetime import UINT32_MAX, deadline_s, expiry_s
from .link_text import ADVERTISEMENT, write_link
from .reasons import ADVERT_STALE, Reason

ADVERTISEMENT_BYTES_MAX = 4096
DATAGRAM_BYTES_MAX = 1200  # on a LAN, where no datagram may be cut into pieces
GROUPS_MAX = 64
DATAGRAM_GROUPS_MAX = 26
SERVICES = {"discovery": 1, "pubsub": 2}
"""The services that an advertisement may name, and their numbers."""
TTL_S = 86_400
EXPIRY_S = TTL_S + 600  # so far ahead of its signing it expires
ADVERTISEMENT_ITEMS_MAX = 1 + 2 * 8 + ADDRESS_ITEMS_MAX + 2 * len(SERVICES) + GROUPS_MAX

_KEYS = ("id", "addr", "svcs", "grps", "rev", "ttl", "exp", "sig")
_SERVICE_NAMES = {number: name for name, number in SERVICES.items()}
_HEAD = b"\x82\x01"
_ID = _HEAD + b"\xa8\x62id\x58\x20"  # how each one begins, since a map's shortest name comes first (R-A5)
_CLAIMED_BYTES = len(_ID) + KEY_BYTES


@dataclass(frozen=True, slots=True)
class Advertisement:
    """A router's key, addresses of known kinds, public services and groups; `rev` counts Unix milliseconds."""

    router: PublicKey
    addresses: tuple[TransportAddress, ...]
    services: Mapping[str, PublicKey] = field(hash=False)
    groups: tuple[PublicKey, ...]
    rev: int
    ttl_s: int
    expiry_min: int
    signature: Signature = field(repr=False)
    wire: bytes = field(repr=False)
    """The signed map, as received."""

    @property
    def message(self) -> bytes:
        """Return the advertisement as a message to a discovery service, also used on the LAN: `[1,
        PEER_ADVERTISEMENT]`."""
        return _HEAD + self.wire

    @property
    def is_farewell(self) -> bool:
        """Whether the router announces with it that it stops (R-D17)."""
        return self.ttl_s == 0

    def text(self) -> str:
        """Return the advertisement as a link; raise `BadText` if it is too long."""
        return write_link(ADVERTISEMENT, self.wire, leave_out="addresses, services or groups")

    def verify(self) -> bool:
        """Whether the signature is the router's, and every key in the advertisement is a valid point (R-B2)."""
        fields = decode(self.wire, ADVERTISEMENT_ITEMS_MAX)
        if not verify(self.router, _signed(fields), self.signature):
            return False
        try:
            for key in (*self.services.values(), *self.groups):
                PublicKey.checked(key)
        except InvalidKey:
            return False
        return True

    def deadline_s(self, arrival_s: int, ttl_s_max: int = TTL_S) -> int:
        """Return the Unix second from which it no longer counts: `arrival_s` and its ttl, or its expiry, the sooner."""
        return deadline_s(arrival_s, self.ttl_s, self.expiry_min, ttl_s_max)


def make_advertisement(
    key: SigningKey,
    addresses: Iterable[TransportAddress],
    *,
    services: Mapping[str, PublicKey] | None = None,
    groups: Iterable[PublicKey] = (),
    rev: int,
    ttl_s: int = TTL_S,
    expiry_min: int,
) -> Advertisement:
    """Return the advertisement of the router with that key, signed; raise ValueError if others would refuse it."""
    fields: dict[str, Any] = {
        "id": key.public,
        "addr": encoded_addresses(addresses),
        "rev": rev,
        "ttl": ttl_s,
        "exp": expiry_min,
        "svcs": {SERVICES[name]: one for name, one in (services or {}).items()},
        "grps": list(groups),
    }
    return decode_advertisement(_HEAD + encode(fields | {"sig": key.sign(_signed(fields))}))


def decode_advertisement(message: bytes, bytes_max: int = ADVERTISEMENT_BYTES_MAX) -> Advertisement:
    """Return the advertisement in a message to a discovery service; else raise `Malformed`. Nothing is verified."""
    if len(message) > bytes_max:
        raise TooLarge(f"an advertisement of {len(message)} bytes; the limit is {bytes_max}")
    if message[:2] != _HEAD:
        raise Malformed("not an advertisement")
    return read_advertisement(decode(message, 2 + ADVERTISEMENT_ITEMS_MAX)[1])


def decode_datagram(data: bytes) -> Advertisement:
    """Return the advertisement in a datagram on the LAN; else raise `Malformed`. Nothing is verified (R-D17)."""
    found = decode_advertisement(data, DATAGRAM_BYTES_MAX)
    if len(found.groups) > DATAGRAM_GROUPS_MAX:
        raise TooLarge(f"a datagram names {len(found.groups)} groups; the limit is {DATAGRAM_GROUPS_MAX}")
    return found


def claimed_router(message: bytes) -> bytes:
    """Return the key of the router that an advertisement names as its own, read without decoding the rest; b"" if there
    is none."""
    return message[len(_ID) : _CLAIMED_BYTES] if message[: len(_ID)] == _ID and len(message) >= _CLAIMED_BYTES else b""


def read_advertisement(value: Any) -> Advertisement:
    """Return the advertisement in a decoded map; raise `Malformed` if it is none. Nothing is verified."""
    found = shape.fields(value, "an advertisement", _KEYS)
    wire = encode(found)
    if len(wire) > ADVERTISEMENT_BYTES_MAX:
        raise TooLarge(f"an advertisement of {len(wire)} bytes; the limit is {ADVERTISEMENT_BYTES_MAX}")
    groups = shape.array(found["grps"], "grps", 0, GROUPS_MAX)
    return Advertisement(
        router=shape.public_key(found["id"], "id"),
        addresses=read_addresses(found["addr"], "addr"),
        services=_services(found["svcs"]),
        groups=tuple([shape.public_key(one, "a group") for one in groups]),
        rev=shape.uint(found["rev"], "rev"),
        ttl_s=shape.uint(found["ttl"], "ttl", UINT32_MAX),
        expiry_min=shape.uint(found["exp"], "exp", UINT32_MAX),
        signature=shape.signature(found["sig"], "sig"),
        wire=wire,
    )


def _services(value: Any) -> dict[str, PublicKey]:
    if type(value) is not dict or not value.keys() <= _SERVICE_NAMES.keys():
        raise Malformed("svcs is not a map of services that are known")
    return {_SERVICE_NAMES[number]: shape.public_key(key, "a service") for number, key in value.items()}


def _signed(fields: Mapping[str, Any]) -> bytes:
    return b"\x01" + encode({name: value for name, value in fields.items() if name != "sig"})


# -- against what is known, and against the clock ----------------------------------------------------------


class Succession(Enum):
    """The relation of an advertisement to the known one of the same router (R-D6)."""

    NEWER = "it replaces the known one"
    SAME = "it is the known one"
    OLDER = "an advertisement of that router with a greater revision is known"
    CONFLICTING = "another advertisement of that router with the same revision is known"


def succession(heard: Advertisement, known: Advertisement | None) -> Succession:
    """Return the relation of `heard` to `known`, both verified and of one router; only a newer one replaces."""
    if known is None or heard.rev > known.rev:
        return Succession.NEWER
    if heard.rev < known.rev:
        return Succession.OLDER
    return Succession.SAME if heard.wire == known.wire else Succession.CONFLICTING


def refusal_of(
    heard: Advertisement, known: Advertisement | None, now_s: float, lifetime_max_s: float
) -> tuple[Reason, str] | None:
    """Return why an advertisement does not count, by its times and by the known one of that router; None if it
    counts."""
    left_s = expiry_s(heard.expiry_min) - now_s
    if left_s <= 0:
        return Reason.EXPIRY_PASSED, "the advertisement has expired, or a clock is wrong: that router's or this node's"
    if left_s > lifetime_max_s:
        said = f"the advertisement expires in {left_s / 86_400:.1f} days; {lifetime_max_s / 86_400:.1f} are the most"
        return Reason.EXPIRY_TOO_FAR, f"{said}, so a clock is wrong: that router's or this node's"
    found = succession(heard, known)
    if found in (Succession.OLDER, Succession.CONFLICTING):
        return ADVERT_STALE, found.value
    return None
