"""Redeeming an invitation: the bodies of unicasts between a guest and the router that invited it (R-D15).

    [9 {"inv" ?"name"}]     answered, on that link only, by     [10 {"inv" "result" "gr" "exp"}]

`inv` is the invitation's secret, which no repr shows. Maps are closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

_ITEMS_MAX = 11  # of REDEEMED
_GRANTED = 0


@dataclass(frozen=True, slots=True, repr=False)
class Redeem:
    """A request to be let in by an invitation; `name` is what the guest is called."""

    secret: bytes
    name: str | None = None

    def __repr__(self) -> str:
        return f"<redeem, as {self.name}>" if self.name else "<redeem>"


@dataclass(frozen=True, slots=True, repr=False)
class Redeemed:
    """The answer: the rights granted and until when (0: without end), or the number of the reason why not."""

    secret: bytes
    reason: int | None
    rights: tuple[str, ...] = ()
    expiry_min: int = 0

    def __repr__(self) -> str:
        if self.reason is not None:
            return f"<redeemed: refused for reason {self.reason}>"
        return f"<redeemed: {', '.join(self.rights)} until {self.expiry_min or 'revoked'}>"


Redemption = Redeem | Redeemed


def is_redemption(body: bytes) -> bool:
    """Whether the body begins like a request to redeem or its answer."""
    return body[:2] in (REDEEM, REDEEMED)


def encode_redemption(value: Redemption) -> bytes:
    """Return the BODY of a request or its answer; raise ValueError if the other end would refuse it."""
    if isinstance(value, Redeem):
        name = clean(value.name or "", NAME_BYTES_MAX).strip()
        body = encode([9, {"inv": value.secret} | ({"name": name} if name else {})])
    else:
        rights = sum(RIGHTS[one] for one in value.rights)
        result = _GRANTED if value.reason is None else int(value.reason)
        body = encode([10, {"inv": value.secret, "result": result, "gr": rights, "exp": value.expiry_min}])
    decode_redemption(body)
    return body


def decode_redemption(body: bytes) -> Redemption:
    """Return the request or the answer in `body`; raise `Malformed` if it is neither."""
    if len(body) > REDEMPTION_BYTES_MAX:
        raise TooLarge(f"a redemption of {len(body)} bytes; the limit is {REDEMPTION_BYTES_MAX}")
    if not is_redemption(body):
        raise Malformed("neither REDEEM nor REDEEMED")
    value = decode(body, _ITEMS_MAX)[1]
    return _redeem(value) if body[:2] == REDEEM else _redeemed(value)


def _redeem(value: Any) -> Redeem:
    found = shape.fields(value, "REDEEM", ("inv",), ("name",))
    return Redeem(shape.octets(found["inv"], "inv", SECRET_BYTES), link_name(found))


def _redeemed(value: Any) -> Redeemed:
    found = shape.fields(value, "REDEEMED", ("inv", "result", "gr", "exp"))
    result = shape.uint(found["result"], "result", REASON_MAX)
    return Redeemed(
        shape.octets(found["inv"], "inv", SECRET_BYTES),
        None if result == _GRANTED else result,
        rights_in(shape.uint(found["gr"], "gr", RIGHTS_ALL)),
        shape.uint(found["exp"], "exp", UINT32_MAX),
    )
