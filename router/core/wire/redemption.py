"""Redemption of an invitation, and later news of its rights: the bodies of unicasts between a guest and its inviter
(R-D15).

    [9 {"inv" ?"name"}]     answered, on that link only, by     [10 {"inv" "result" "gr" "exp" ?"had"}]
    [12 {}]                 answered, on that link only, by     [13 {"result" "gr" "exp"}], again at each change

`inv` is the invitation's secret, which no repr shows. Maps are closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from . import shape
from .codec import Malformed, TooLarge, decode, encode
from .grouplink import NAME_BYTES_MAX, link_name
from .invitation import RIGHTS, RIGHTS_ALL, SECRET_BYTES, rights_in
from .lifetime import UINT32_MAX
from .reasons import REASON_MAX
from .text import clean

REDEMPTION_BYTES_MAX = 128
REDEEM = b"\x82\x09"
REDEEMED = b"\x82\x0a"
ASK_TERMS = b"\x82\x0c"
TERMS = b"\x82\x0d"

_ITEMS_MAX = 13  # of REDEEMED
_GRANTED = 0
_GIVEN = ("result", "gr", "exp")


class Redeem(Struct, frozen=True):
    """A request to be let in by an invitation. `name`: the guest's name for itself."""

    secret: bytes
    name: str | None = None

    def __repr__(self) -> str:
        return f"<redeem, as {self.name}>" if self.name else "<redeem>"


class Redeemed(Struct, frozen=True):
    """The answer: the rights granted and their end (0: none), or the number of the reason for a refusal.

    `had`: the guest had these rights before, and no use of the invitation was counted."""

    secret: bytes
    reason: int | None
    rights: tuple[str, ...] = ()
    expiry_min: int = 0
    had: bool = False

    def __repr__(self) -> str:
        if self.reason is not None:
            return f"<redeemed: refused for reason {self.reason}>"
        return f"<redeemed: {', '.join(self.rights)} until {self.expiry_min or 'revoked'}>"


class AskTerms(Struct, frozen=True):
    """A guest's request for its rights here, now and at each change while the link is up."""


class Terms(Struct, frozen=True):
    """A guest's rights and their end (0: none). Without rights: the number of the reason, and the time since when (0:
    unknown)."""

    reason: int | None
    rights: tuple[str, ...] = ()
    expiry_min: int = 0


Redemption = Redeem | Redeemed | AskTerms | Terms


def is_redemption(body: bytes) -> bool:
    """Whether the body begins like one of these requests or answers."""
    return body[:2] in (REDEEM, REDEEMED, ASK_TERMS, TERMS)


def encode_redemption(value: Redemption) -> bytes:
    """Return the BODY of a request or its answer; raise ValueError if the other end would refuse it."""
    if isinstance(value, Redeem):
        name = clean(value.name or "", NAME_BYTES_MAX).strip()
        body = encode([9, {"inv": value.secret} | ({"name": name} if name else {})])
    elif isinstance(value, AskTerms):
        body = encode([12, {}])
    elif isinstance(value, Terms):
        body = encode([13, _given(value)])
    else:
        body = encode([10, {"inv": value.secret, **_given(value)} | ({"had": True} if value.had else {})])
    decode_redemption(body)
    return body


def _given(value: Redeemed | Terms) -> dict[str, int]:
    rights = sum(RIGHTS[one] for one in value.rights)
    return {"result": _GRANTED if value.reason is None else int(value.reason), "gr": rights, "exp": value.expiry_min}


def decode_redemption(body: bytes) -> Redemption:
    """Return the request or the answer in `body`; raise `Malformed` if it is neither."""
    if len(body) > REDEMPTION_BYTES_MAX:
        raise TooLarge(f"a redemption of {len(body)} bytes; the limit is {REDEMPTION_BYTES_MAX}")
    if not is_redemption(body):
        raise Malformed("neither a redemption nor about its terms")
    value = decode(body, _ITEMS_MAX)[1]
    if body[:2] == ASK_TERMS:
        shape.fields(value, "ASK_TERMS", ())
        return AskTerms()
    if body[:2] == TERMS:
        return Terms(*_given_in(shape.fields(value, "TERMS", _GIVEN)))
    return _redeem(value) if body[:2] == REDEEM else _redeemed(value)


def _redeem(value: Any) -> Redeem:
    found = shape.fields(value, "REDEEM", ("inv",), ("name",))
    return Redeem(shape.octets(found["inv"], "inv", SECRET_BYTES), link_name(found))


def _redeemed(value: Any) -> Redeemed:
    found = shape.fields(value, "REDEEMED", ("inv", *_GIVEN), ("had",))
    had = found.get("had", False)
    if "had" in found and had is not True:
        raise Malformed("had is not true")
    return Redeemed(shape.octets(found["inv"], "inv", SECRET_BYTES), *_given_in(found), had)


def _given_in(found: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...], int]:
    result = shape.uint(found["result"], "result", REASON_MAX)
    return (
        None if result == _GRANTED else result,
        rights_in(shape.uint(found["gr"], "gr", RIGHTS_ALL)),
        shape.uint(found["exp"], "exp", UINT32_MAX),
    )
