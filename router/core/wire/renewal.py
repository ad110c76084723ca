"""Renewals: statements that another key takes the place of an app's key, signed by both (cddl/renewal.cddl).

Who has only the old key cannot make one that names a key of somebody else, and who has only the new one none at all.
What a valid statement is worth when there are several for one key is decided in `core/neighbours/renewals.py`.
"""

from __future__ import annotations

from . import shape
from .codec import Malformed, TooLarge, decode, encode
from .crypto import KEY_BYTES, SIGNATURE_BYTES, SigningKey
from .lifetime import UINT32_MAX
from .two_keys import TwoKeys

READ_S = 7 * 86_400
"""How long, at most, what comes to the old address is still given to who has the new key."""
RENEWAL_BYTES_MAX = 1 + 2 * (2 + KEY_BYTES) + 2 * 5 + 2 * (2 + SIGNATURE_BYTES)
NOTICE = b"\x82\x16\x86\x58\x20"
"""The first bytes of the body by which an app tells its renewal to those that it writes to: code 22, six values, a
key."""
NOTICE_BYTES_MAX = 2 + RENEWAL_BYTES_MAX

_ITEMS_MAX = 7
_CODE = 22


class Renewal(TwoKeys, frozen=True):
    """From the Unix second `from_s` on, `new` is the address of who had `old`; until `until_s` it also reads what comes
    to the old address."""

    LABEL = b"upsycle renewal 1"
    WORD = "renewal"


def make_renewal(old: SigningKey, new: SigningKey, from_s: int, until_s: int) -> Renewal:
    """Return the statement, signed by both keys; raise ValueError if nobody would accept it."""
    made = Renewal.signed(old, new, from_s, until_s)
    decode_renewal(encode_renewal(made))
    return made


def encode_renewal(value: Renewal) -> bytes:
    return encode(value.items())


def decode_renewal(data: bytes) -> Renewal:
    """Return the statement in `data`; raise `Malformed` if it is none. Its signatures are *not* checked."""
    if len(data) > RENEWAL_BYTES_MAX:
        raise TooLarge(f"a renewal of {len(data)} bytes; the limit is {RENEWAL_BYTES_MAX}")
    return _renewal(decode(data, _ITEMS_MAX))


def is_renewal_notice(body: bytes) -> bool:
    """Whether the body of a unicast begins like the news of a renewal."""
    return body.startswith(NOTICE)


def encode_renewal_notice(value: Renewal) -> bytes:
    """Return the body of a unicast that tells of a renewal."""
    return encode([_CODE, value.items()])


def decode_renewal_notice(body: bytes) -> Renewal:
    """Return the statement in the body of a unicast; raise `Malformed` if it is none. Its signatures are *not*
    checked."""
    if not is_renewal_notice(body):
        raise Malformed("not the news of a renewal")
    return decode_renewal(body[2:])


def _renewal(value: object) -> Renewal:
    old, new, from_s, until_s, old_signature, new_signature = shape.array(value, "a renewal", 6, 6)
    found = Renewal(
        shape.checked_key(old, "the old key"),
        shape.checked_key(new, "the new key"),
        shape.uint(from_s, "from", UINT32_MAX),
        shape.uint(until_s, "until", UINT32_MAX),
        shape.signature(old_signature, "the old key's signature"),
        shape.signature(new_signature, "the new key's signature"),
    )
    if found.old == found.new:
        raise Malformed("a key cannot take its own place")
    if not 0 < found.until_s - found.from_s <= READ_S:
        raise Malformed(
            f"the old address would be read for {found.until_s - found.from_s} s; 1 to {READ_S} are allowed"
        )
    return found
