"""Keys and ids as text for people: bech32m with a kind prefix and a checksum (BIP-350), or plain hex.

    addr1…    the address of a router, a service or an app     group1…    a group     msg1…    a message id

Both forms are accepted wherever a key is expected. Short forms serve to look up a key, never to address it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, get_args, overload
from unicodedata import category

from .crypto import KEY_BYTES, InvalidKey, MessageId, PublicKey
from .errors import RouterError

Kind = Literal["addr", "group", "msg"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TEXT_BYTES_MAX = 200
SUBJECT = "subject"
"""The name under which a line of the process's log says whom it is about, in its `extra`."""
SHORT_TAIL = 8

_NAMES = {"addr": "an address", "group": "a group", "msg": "a message id"}
_CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_VALUE_OF = {character: value for value, character in enumerate(_CHARSET)}
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32, _BECH32M = 1, 0x2BC830A3
_BECH32M_MAX = 90
_CHECKSUM = 6
_LINK = re.compile(
    r"""["']?\bupsycle(?::/{0,2}|[%=](?:25)*3a)"""
    r"""[-\w%=\\\u00ad\u200b-\u200f\u2010\u2011\u2060\ufeff…]{8,}["']?""",
    re.IGNORECASE,
)
"""Matches a link within an error, as `link_text` reads it, with the quotes around it."""
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


class BadText(RouterError, ValueError):
    """A text cannot be parsed; the error says which text, why, and what to do."""


def key_text(kind: Kind, raw: bytes) -> str:
    """Return the text of a key or id (32 bytes) for people to copy; `parse_key` reads it back."""
    if len(raw) != KEY_BYTES:
        raise ValueError(f"a key or id has {KEY_BYTES} bytes, not {len(raw)}")
    return bech32m_encode(kind, raw)


@overload
def parse_key(text: str, kind: Literal["addr", "group"]) -> PublicKey: ...
@overload
def parse_key(text: str, kind: Literal["msg"]) -> MessageId: ...
@overload
def parse_key(text: str, kind: Kind | None = None) -> bytes: ...
def parse_key(text: str, kind: Kind | None = None) -> bytes:
    """Return the 32 bytes that `text` encodes as bech32m of that kind or as 64 hex digits; else raise `BadText`.

    Addresses and groups must be valid points (R-B2). Hex without a `kind` may be a message id, and is not checked.
    """
    text = text.strip()
    if len(text) == 2 * KEY_BYTES and _is_hex(text):
        return _checked(kind, bytes.fromhex(text), text)
    if len(text) > _BECH32M_MAX:
        raise _bad(text, kind, f"it is {len(text)} characters long, longer than any key")
    found, raw = _decoded(text, kind)
    if found not in KINDS:
        raise _bad(text, kind, f'its prefix "{found}" is unknown; keys begin with {"1, ".join(KINDS)}1')
    if kind is not None and found != kind:
        raise _bad(text, kind, f"it is {_NAMES[found]}")
    if len(raw) != KEY_BYTES:
        raise _bad(text, kind, f"it holds {len(raw)} bytes instead of {KEY_BYTES}")
    return _checked(found, raw, text)


def short(value: str | bytes) -> str:
    """Return a short form to show and to look up: `addr1qy2x9k4m…` of a text, `3f9a12bc…` of raw bytes."""
    text = value.hex() if isinstance(value, bytes) else value
    keep = (text.rfind("1", 0, len("group1")) + 1 if isinstance(value, str) else 0) + SHORT_TAIL
    return text if len(text) <= keep else text[:keep] + "…"


def hex_fault(text: str) -> str:
    """Return why the text does not stand for bytes in hexadecimal, "" if it does."""
    if not _is_hex(text):
        return "is not hexadecimal; write two digits a byte"
    if len(text) % 2:
        return f"has an odd number of hexadecimal digits, {len(text)}; write two digits a byte"
    return ""


def clean(text: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Return a peer's text fit to be printed: no control or invisible characters, at most `bytes_max` bytes of
    UTF-8."""
    visible = "".join(one for one in text[: 4 * bytes_max] if category(one) not in _INVISIBLE)
    return visible.encode()[:bytes_max].decode(errors="ignore")


def printable(text: str) -> str:
    """Return a text of any length with a space for each control or invisible character, so that it is one line of a
    log and changes nothing on a terminal."""
    return "".join(" " if category(one) in _INVISIBLE else one for one in str.__str__(text))


def without_links(text: str) -> str:
    """Return the text with "a link" in place of each link that it repeats, also of one that is cut short or changed: a
    link may be a secret, and errors go on screens and into logs."""
    return _LINK.sub("a link", text)


def quoted(text: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Return a text that somebody gave in quotes, fit to be printed in an error; of a link only that it is one."""
    return without_links(f'"{clean(text, bytes_max)}"')


def bech32m_encode(prefix: str, data: bytes) -> str:
    return _encoded(prefix, data, _BECH32M)


def bech32_encode(prefix: str, data: bytes) -> str:
    """Return the older form (BIP-173) of bech32, in which Cardano writes the ids of pools."""
    return _encoded(prefix, data, _BECH32)


def _encoded(prefix: str, data: bytes, constant: int) -> str:
    values = _regroup(data, 8, 5)
    check = _polymod((*_expand(prefix), *values, *bytes(_CHECKSUM))) ^ constant
    values += [check >> 5 * (_CHECKSUM - 1 - at) & 31 for at in range(_CHECKSUM)]
    return prefix + "1" + "".join(_CHARSET[value] for value in values)


def bech32m_decode(text: str) -> tuple[str, bytes]:
    """Return prefix and data of a bech32m text; raise ValueError with a clause that says what is wrong."""
    if text != text.lower() and text != text.upper():
        raise ValueError("it mixes upper and lower case")
    prefix, separator, rest = text.lower().rpartition("1")
    if not separator or not prefix or len(rest) < _CHECKSUM or len(text) > _BECH32M_MAX:
        raise ValueError("it has no prefix and checksum")
    if not all(33 <= ord(one) <= 126 for one in prefix):
        raise ValueError("its prefix holds a character that is not allowed")
    unknown = next((one for one in rest if one not in _VALUE_OF), None)
    if unknown is not None:
        raise ValueError(f'the character "{unknown}" never stands in a key')
    values = [_VALUE_OF[one] for one in rest]
    if _polymod((*_expand(prefix), *values)) != _BECH32M:
        raise ValueError("its checksum does not fit: a character is wrong, missing or too many")
    data = values[:-_CHECKSUM]
    raw = bytes(_regroup(data, 5, 8))
    if _regroup(raw, 8, 5) != data:
        raise ValueError("its last character holds stray bits")
    return prefix, raw


def bech32m_bits(characters: str) -> int:
    """Return bech32m data characters, five bits each, as one number; raise ValueError for any other character."""
    number = 0
    for one in characters:
        if one not in _VALUE_OF:
            raise ValueError(f'the character "{one}" never stands in a key')
        number = number << 5 | _VALUE_OF[one]
    return number


def _decoded(text: str, kind: Kind | None) -> tuple[str, bytes]:
    try:
        return bech32m_decode(text)
    except ValueError as error:
        raise _bad(text, kind, str(error)) from None


def _checked(kind: str | None, raw: bytes, text: str) -> bytes:
    if kind == "msg":
        return MessageId(raw)
    if kind is None:
        return raw
    try:
        return PublicKey.checked(raw)
    except InvalidKey:
        raise _bad(text, None, "its 32 bytes are not a valid Ed25519 public key") from None


def _bad(text: str, kind: Kind | None, cause: str) -> BadText:
    wanted = _NAMES[kind] if kind else "a key or id"
    form = f"{kind}1…" if kind else "addr1…, group1… or msg1…"
    return BadText(f"{quoted(text, 100)} is not {wanted}: {cause}. Copy it again, whole: {form}, or 64 hex digits.")


def _is_hex(text: str) -> bool:
    return all(one in "0123456789abcdefABCDEF" for one in text)


def _expand(prefix: str) -> list[int]:
    return [ord(one) >> 5 for one in prefix] + [0] + [ord(one) & 31 for one in prefix]


def _polymod(values: Iterable[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATOR):
            check ^= generator if top >> bit & 1 else 0
    return check


def _regroup(data: Iterable[int], width: int, to_width: int) -> list[int]:
    """Regroup values of `width` bits into values of `to_width` bits.

    To narrower values, the last one is padded with zero bits; to wider ones, leftover bits are dropped; the caller
    checks them."""
    held, bits, out = 0, 0, []
    for value in data:
        held, bits = held << width | value, bits + width
        while bits >= to_width:
            bits -= to_width
            out.append(held >> bits & (1 << to_width) - 1)
        held &= (1 << bits) - 1
    if bits and to_width < width:
        out.append(held << (to_width - bits) & (1 << to_width) - 1)
    return out


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: `1 pool`, `2 pools`. `nouns`: the plural, if it is not made with an s."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def span_text(seconds: float | None) -> str:
    """Return a time span for people: `4 s`, `3 min`, `5 h 12 min`, `2 d 4 h`, `7 d`."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    large, size, small, part = (3600, "h", 60, "min") if whole < 86_400 else (86_400, "d", 3600, "h")
    rest = whole % large // small
    return f"{whole // large} {size} {rest} {part}" if rest else f"{whole // large} {size}"


def age_text(seconds: float) -> str:
    """Return how old something is, for people: `3 min old`; of a time that lies ahead of this clock by a second or
    more, `from 3 min ahead of this clock`: one of both clocks is wrong."""
    return f"{span_text(max(0.0, seconds))} old" if seconds > -1 else f"from {span_text(-seconds)} ahead of this clock"
