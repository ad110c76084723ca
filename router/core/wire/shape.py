"""Strict checks of decoded CBOR: closed maps, arrays, numbers, byte strings, texts (R-A4, R-A5).

Every check takes a value and its name for the error text, and returns the value, typed, or raises `Malformed`. Types
are compared exactly: `true` is not the number 1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .codec import Malformed
from .crypto import ID_BYTES, InvalidKey, MessageId, PublicKey, Signature
from .text import clean

UINT_MAX = (1 << 64) - 1


Fields = dict[str, Any]


def fields(value: Any, name: str, required: Collection[str], optional: Collection[str] = ()) -> Fields:
    """Check for a map with all required keys, any of the optional ones, and no other (R-A5)."""
    found = open_fields(value, name, required)
    if len(found) > len(required) + sum(key in found for key in optional):
        raise Malformed(f"{name} has a key that is not known")
    return found


def open_fields(value: Any, name: str, required: Collection[str]) -> Fields:
    """Check for a map with at least the required keys; others are ignored."""
    if type(value) is not dict:
        raise Malformed(f"{name} is not a map")
    missing = [key for key in required if key not in value]
    if missing:
        raise Malformed(f"{name} lacks {', '.join(missing)}")
    return value


def array(value: Any, name: str, least: int, most: int) -> list[Any]:
    if type(value) is not list:
        raise Malformed(f"{name} is not an array")
    if not least <= len(value) <= most:
        raise Malformed(f"{name} has {len(value)} items; {least} to {most} are allowed")
    return value


def uint(value: Any, name: str, most: int = UINT_MAX) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise Malformed(f"{name} is not an unsigned number up to {most}")
    return value


def boolean(value: Any, name: str) -> bool:
    if type(value) is not bool:
        raise Malformed(f"{name} is neither true nor false")
    return value


def octets(value: Any, name: str, least: int, most: int | None = None) -> bytes:
    """Check for a byte string of `least` to `most` bytes, or of exactly `least` if `most` is None."""
    if type(value) is not bytes:
        raise Malformed(f"{name} is not a byte string")
    if not least <= len(value) <= (least if most is None else most):
        raise Malformed(f"{name} has {len(value)} bytes instead of {least}{f' to {most}' if most else ''}")
    return value


def text(value: Any, name: str, bytes_max: int) -> str:
    """Check for a text of at most `bytes_max` bytes of UTF-8, and return it without control characters."""
    if type(value) is not str:
        raise Malformed(f"{name} is not a text")
    if len(value.encode()) > bytes_max:
        raise Malformed(f"{name} is longer than {bytes_max} bytes")
    return clean(value, bytes_max)


def word(value: Any, name: str, words: Collection[str]) -> str:
    if type(value) is not str or value not in words:
        raise Malformed(f"{name} is none of {', '.join(words)}")
    return value


def message_id(value: Any, name: str) -> MessageId:
    return MessageId(octets(value, name, ID_BYTES))


def signature(value: Any, name: str) -> Signature:
    return Signature(octets(value, name, 64))


def public_key(value: Any, name: str) -> PublicKey:
    """Check for 32 bytes only, for keys that are already vouched for or are only compared."""
    return PublicKey(octets(value, name, 32))


def checked_key(value: Any, name: str) -> PublicKey:
    """Check for a canonical point of large order (R-B2), for keys that nothing has vouched for yet."""
    try:
        return PublicKey.checked(octets(value, name, 32))
    except InvalidKey:
        raise Malformed(f"{name} is not a valid Ed25519 public key") from None
