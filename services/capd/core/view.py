"""A message as it is printed: with the names that scripts rely on, bytes in hex, and null for absent values."""

from __future__ import annotations

from math import isfinite
from typing import Any

from .message import NEVER, NO_HASH, CapdMessage, is_met, shown_id


def number(value: float) -> float | str:
    """Return a double for JSON, as text if it is infinite or NaN, which JSON cannot express."""
    return value if isfinite(value) else repr(value)


def view_of(message: CapdMessage, now_s: int) -> dict[str, Any]:
    """Return the message as it is printed, with its priority at a Unix second."""
    own_id = message.own_id()
    return {
        "id": shown_id(own_id),
        "valid": is_met(own_id, message.difficulty_bits),
        "priority": number(message.priority(now_s)),
        "data": message.data.hex(),
        "create_time": message.create_time,
        "expiration": None if message.expiration == NEVER else message.expiration,
        "rescind_hash": None if message.rescind_hash == NO_HASH else message.rescind_hash.hex(),
        "difficulty_bits": f"{message.difficulty_bits:08x}",
        "nonce": message.nonce.hex(),
    }
