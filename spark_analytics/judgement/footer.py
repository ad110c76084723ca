"""Header and footer of a segment: their content, and whether the router signed it (`cddl/segment.cddl`).

The signed bytes are deterministic CBOR (RFC 8949 §4.2.1) of whole numbers, text, one map and null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from .schema import SCHEMA, VERSION

SEAL_LABEL = b"upsycle event log seal 1"
SUCCESSION_LABEL = b"upsycle succession 1"
SUCCESSION_BYTES = 211
SUCCESSIONS_MAX = 64
"""The most statements in a footer (cddl/succession.cddl), by which the router's first key has been followed."""
NATURAL_MAX = (1 << 63) - 1

Verify = Callable[[bytes, bytes, bytes], bool]
"""`(key, message, signature)`: whether the signature over the message is by that key."""

_HEX32 = re.compile("[0-9a-f]{64}")
_WORD = re.compile("[a-z][a-z0-9_:-]{0,63}")
_NO_REASONS = "a header whose reasons are no list of words"
_HEX64 = re.compile("[0-9a-f]{128}")
_CHAIN = re.compile(f"(?:[0-9a-f]{{{2 * SUCCESSION_BYTES}}}){{1,{SUCCESSIONS_MAX}}}")
_STATEMENT = re.compile(
    rb"\x86\x58\x20(.{32})\x58\x20(.{32})(\x1a.{4}\x1a.{4})\x58\x40(.{64})\x58\x40(.{64})", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a segment or tail. `predecessor`: digest of the segment before; None in the very first;
    `reasons`: the words that may stand in it beside those of all routers; None: it does not say so."""

    router: str
    first_seq: int
    predecessor: str | None
    reasons: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Footer:
    """The last line of a segment; in pruned.jsonl, of one or several consecutive ones."""

    router: str
    first_seq: int
    last_seq: int
    n: int
    segments: int
    lines: int
    counts: Mapping[str, int]
    min_t: int
    max_t: int
    predecessor: str | None
    sha256: str
    signature: str
    successions: str = ""

    def signed_bytes(self) -> bytes:
        """Return the bytes that the router signs. Raise `ValueError` for an event name that is not UTF-8 text."""
        said = (
            VERSION,
            self.router,
            self.first_seq,
            self.last_seq,
            self.n,
            self.segments,
            self.lines,
            self.counts,
            self.min_t,
            self.max_t,
            self.predecessor,
            self.sha256,
        )
        return SEAL_LABEL + _encode(said)

    def is_authentic(self, verify: Verify) -> bool:
        """Whether the router that it names signed it, by its first key or by one that has followed that."""
        try:
            signed = self.signed_bytes()
            keys = followed(self.router, self.successions, verify)
        except ValueError:
            return False
        return verify(keys[-1], signed, bytes.fromhex(self.signature))

    @property
    def followers(self) -> tuple[str, ...]:
        """Return the keys that have followed the router's first one, if the footer is authentic."""
        found = [bytes.fromhex(self.successions)[at : at + SUCCESSION_BYTES] for at in _places(self.successions)]
        return tuple(one[37:69].hex() for one in found)


def followed(router: str, successions: str, verify: Verify) -> list[bytes]:
    """Return the keys of a router, the first one and those that have followed it, the newest last. `successions`: the
    statements of both keys each, in hex, joined. Raise `ValueError` if they do not lead from key to key."""
    keys, data = [bytes.fromhex(router)], bytes.fromhex(successions)
    for at in _places(successions):
        found = _STATEMENT.fullmatch(data[at : at + SUCCESSION_BYTES])
        if found is None or found[1] != keys[-1] or found[2] in keys:
            raise ValueError("statements that do not lead from the router's first key to another")
        signed = SUCCESSION_LABEL + b"\x84\x58\x20" + found[1] + b"\x58\x20" + found[2] + found[3]
        if not (verify(found[1], signed, found[4]) and verify(found[2], signed, found[5])):
            raise ValueError("a statement that one of both keys has not signed")
        keys.append(found[2])
    return keys


def _places(successions: str) -> range:
    return range(0, len(successions) // 2, SUCCESSION_BYTES)


def decode_line(line: bytes) -> dict[str, Any]:
    """Return the map of one line; raise `ValueError` with a text for people if it is none."""
    try:
        row = json.loads(line.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte 0x{line[error.start]:02x} at column {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON from column {error.colno} on") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {str(error)[:80]}") from None
    if not isinstance(row, dict):
        raise ValueError("not a map of columns")  # noqa: TRY004  For callers it is like any other bad line.
    return row


def read_header(row: Mapping[str, Any]) -> Header:
    """Return the header in a line; raise `ValueError` with the reason if it is none."""
    _expect(row, "segment", "the header of a segment")
    if row.get("schema") != SCHEMA:
        raise ValueError(f"a header of the schema {row.get('schema')!r:.60}, where {SCHEMA!r} should be")
    _expect_columns(row, "header", hexes=("router",), positive=("first_seq",))
    return Header(row["router"], row["first_seq"], row.get("predecessor"), _reasons(row.get("reasons")))


def read_footer(row: Mapping[str, Any]) -> Footer:
    """Return the footer in a line; raise `ValueError` with the reason if it is none. Its signature is not checked."""
    _expect(row, "seal", "a footer")
    positive = ("first_seq", "last_seq", "n", "segments", "lines")
    _expect_columns(row, "footer", hexes=("router", "sha256"), positive=positive)
    min_t, max_t, counts = row.get("min_t", 0), row.get("max_t", 0), row.get("counts")
    if not (is_natural(min_t) and is_natural(max_t)):
        raise ValueError(f"a footer whose min_t and max_t are {min_t!r:.40} and {max_t!r:.40}")
    if not isinstance(counts, dict) or not all(map(is_natural, counts.values())):
        raise ValueError("a footer whose counts are no whole numbers by event")
    if row["last_seq"] - row["first_seq"] + 1 != row["n"]:
        numbers = f"{row['first_seq']} to {row['last_seq']}"
        raise ValueError(f"a footer over the sequence numbers {numbers} that says they are {row['n']}")
    signature = row.get("signature")
    if not isinstance(signature, str) or not _HEX64.fullmatch(signature):
        raise ValueError("a footer without a signature of 128 hex digits")
    successions = row.get("successions", "")
    if not isinstance(successions, str) or (successions and not _CHAIN.fullmatch(successions)):
        raise ValueError("a footer whose successions are no statements")
    return Footer(
        row["router"],
        row["first_seq"],
        row["last_seq"],
        row["n"],
        row["segments"],
        row["lines"],
        counts,
        min_t,
        max_t,
        row.get("predecessor"),
        row["sha256"],
        signature,
        successions,
    )


def _reasons(said: object) -> frozenset[str] | None:
    """Return the words that a header names; None if it does not say so. Raise `ValueError` if they are none."""
    if said is None:
        return None
    if not isinstance(said, list) or not all(isinstance(word, str) for word in said):
        raise ValueError(_NO_REASONS)
    return _set_of(tuple(said))


@lru_cache(maxsize=1024)
def _set_of(words: tuple[str, ...]) -> frozenset[str]:
    """Return the same set for the same words: files are many, and what they name is the same in most."""
    if not all(map(_WORD.fullmatch, words)):
        raise ValueError(_NO_REASONS)
    return frozenset(words)


def is_natural(value: object) -> bool:
    """Whether the value is a whole number within the range that the analytics can count with."""
    return type(value) is int and 0 <= value <= NATURAL_MAX


def _expect(row: Mapping[str, Any], event: str, name: str) -> None:
    if row.get("event") != event:
        raise ValueError(f"the event {row.get('event')!r:.40} where {name} should be")
    if row.get("v") != VERSION or type(row["v"]) is not int:
        raise ValueError(f"version {row.get('v')!r:.40} of the log; this audit reads version {VERSION}")


def _expect_columns(row: Mapping[str, Any], kind: str, hexes: tuple[str, ...], positive: tuple[str, ...]) -> None:
    for name in positive:
        if not is_natural(row.get(name)) or not row[name]:
            raise ValueError(f"a {kind} whose {name} is {row.get(name)!r:.40}, not a number from 1 on")
    for name in (*hexes, *(("predecessor",) if row.get("predecessor") is not None else ())):
        value = row.get(name)
        if not isinstance(value, str) or not _HEX32.fullmatch(value):
            raise ValueError(f"a {kind} whose {name} is {value!r:.80}, not 64 hex digits")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


# -- deterministic CBOR -----------------------------------------------------------------------------------


def _encode(value: Any) -> bytes:
    match value:
        case None:
            return b"\xf6"
        case int():
            return _head(0, value)
        case str():
            text = value.encode()
            return _head(3, len(text)) + text
        case tuple():
            return _head(4, len(value)) + b"".join(map(_encode, value))
    pairs = sorted((_encode(name), _encode(one)) for name, one in value.items())
    return _head(5, len(pairs)) + b"".join(name + one for name, one in pairs)


def _head(major: int, value: int) -> bytes:
    """Encode major type and value in the shortest form."""
    for size, code in ((0, value), (1, 24), (2, 25), (4, 26), (8, 27)):
        if value < (1 << 8 * size if size else 24):
            return bytes((major << 5 | code,)) + (value.to_bytes(size, "big") if size else b"")
    raise ValueError(f"{value} is beyond 64 bits")
