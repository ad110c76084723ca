"""The beginning of a message id as a user types it: hex digits, or the text form msg1…, whole or truncated."""

from __future__ import annotations

from typing import NamedTuple

from router.core.wire.crypto import ID_BYTES
from router.core.wire.text import BadText, bech32m_bits, parse_key, quoted

HEX_DIGITS_MIN = 4
TEXT = "msg1"
_CHARACTER_BITS = 5


class IdPrefix(NamedTuple):
    """The first `bits` bits of an id; `head` holds them, padded with zeros to a whole id."""

    head: bytes
    bits: int

    @property
    def whole(self) -> bytes:
        """Return the complete bytes of the prefix."""
        return self.head[: self.bits // 8]

    @property
    def is_id(self) -> bool:
        return self.bits == ID_BYTES * 8

    def fits(self, raw: bytes) -> bool:
        """Whether an id, or the beginning of one, agrees with this prefix as far as both go."""
        bits = min(self.bits, len(raw) * 8)
        rest = len(raw) * 8 - bits
        mine = int.from_bytes(self.head[: len(raw)].ljust(len(raw), b"\0"))
        return int.from_bytes(raw) >> rest == mine >> rest


def spelling(text: str) -> str:
    """Return the typed text without spaces, ellipsis and capitals, as a sentence may quote it."""
    return text.strip().rstrip("…").lower()


def parse_prefix(text: str) -> IdPrefix:
    """Return the prefix in `text`; raise `BadText` if it is none or too short, or a whole msg1… with a bad checksum."""
    said = spelling(text)
    if said.startswith(TEXT):
        return _of_text(said)
    if not all(one in "0123456789abcdef" for one in said) or len(said) > 2 * ID_BYTES:
        raise BadText(f"{quoted(text, 80)} is not the beginning of a message id: hex digits, or msg1…")
    if len(said) < HEX_DIGITS_MIN:
        raise BadText(f"{quoted(text, 80)} is too short to look up: give at least {HEX_DIGITS_MIN} hex digits")
    return IdPrefix(bytes.fromhex(said.ljust(2 * ID_BYTES, "0")), 4 * len(said))


def _of_text(said: str) -> IdPrefix:
    characters = said.removeprefix(TEXT)
    most = ID_BYTES * 8 // _CHARACTER_BITS
    if len(characters) > most:
        return IdPrefix(parse_key(said, "msg"), ID_BYTES * 8)
    if len(characters) < HEX_DIGITS_MIN:
        raise BadText(f'"{said}" is too short to look up: give at least {HEX_DIGITS_MIN} characters after {TEXT}')
    bits = len(characters) * _CHARACTER_BITS
    try:
        number = bech32m_bits(characters)
    except ValueError as error:
        raise BadText(f'"{said}" is not the beginning of a message id: {error}') from None
    return IdPrefix((number << ID_BYTES * 8 - bits).to_bytes(ID_BYTES), bits)
