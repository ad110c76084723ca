"""How apps get each other's prekeys: the bodies of two unicasts, each signed by its source as every unicast is.

[20, {}]             a request for the recipient's prekey
[21, prekey / null]  the answer; null: this address opens nothing that is sealed, send in the open
"""

from __future__ import annotations

from . import shape
from .codec import Malformed, TooLarge, decode, encode
from .prekey import PREKEY_ITEMS_MAX, Prekey, prekey_fields, read_prekey

ASK = b"\x82\x14\xa0"
NULL_ANSWER = b"\x82\x15\xf6"
ANSWER_BYTES_MAX = 2 + 163
"""The array, its type, and a prekey with an end in its longest form."""

_ANSWER = 21
_ANSWER_BEGINS = b"\x82\x15\xa4\x62id\x58\x20"


def is_exchange(body: bytes) -> bool:
    """Whether the body is a request for a prekey, or begins like an answer to one."""
    return body in (ASK, NULL_ANSWER) or body.startswith(_ANSWER_BEGINS)


def is_request(body: bytes) -> bool:
    """Whether the body is a request for a prekey."""
    return body == ASK


def encode_answer(prekey: Prekey | None) -> bytes:
    """Return the BODY of the answer; `None`: send in the open."""
    if prekey is not None and prekey.until_min is None:
        raise ValueError("a prekey that answers names its end")
    return encode([_ANSWER, None if prekey is None else prekey_fields(prekey)])


def decode_answer(body: bytes) -> Prekey | None:
    """Return the prekey in the answer, None if it asks to send in the open; raise `Malformed` if it is no answer. The
    prekey's own signature is *not* checked."""
    if len(body) > ANSWER_BYTES_MAX:
        raise TooLarge(f"a prekey in {len(body)} bytes; the limit is {ANSWER_BYTES_MAX}")
    kind, value = shape.array(decode(body, 2 + 1 + PREKEY_ITEMS_MAX), "an answer", 2, 2)
    if shape.uint(kind, "the answer's type") != _ANSWER:
        raise Malformed(f"type {kind} is no answer to a request for a prekey")
    if value is None:
        return None
    prekey = read_prekey(value)
    if prekey.until_min is None:
        raise Malformed("the prekey names no end")
    return prekey
