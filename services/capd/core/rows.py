"""The rows that a CAPD pool keeps on disk (cddl/capd-store.cddl); rows that this version would not write are
refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from router.core.wire import shape
from router.core.wire.codec import Malformed, decode, encode
from router.core.wire.crypto import InvalidKey, PublicKey
from router.core.wire.errors import RouterError

from .lives import KEPT, Life
from .message import HASH_BYTES, ID_BYTES, SECRET_BYTES_MAX, CapdMessage, read_canonical
from .messages import MESSAGE_BYTES_MAX
from .pattern import KEY_BYTES, Pattern
from .watches import StandingQuery

T = TypeVar("T")
VERSION = 2
STATE = b"state"
MESSAGE, WATCH, TOLD, SECRET = b"m ", b"q ", b"t ", b"s "
NUMBER_BYTES = 8
_KEPT_HEAD = b"\x83\x58\x20"
_AT_LIFE, _AT_WIRE = len(_KEPT_HEAD) + ID_BYTES, len(_KEPT_HEAD) + ID_BYTES + 3
_SHORT, _SHORT_MIN = 0x58, 24
"""The head of a byte string of 24 to 255 bytes."""
_REMEDY = "put a backup of the directory in its place, or move it away, and the pool begins empty"


class BadRow(RouterError):
    """Raised for a row that this version did not write; the text says what is wrong and what to do."""


class Kept(NamedTuple):
    """The row of a message: its id, its state, and the message in canonical form."""

    id: bytes
    life: Life
    message: CapdMessage


def message_key(number: int) -> bytes:
    """Return the key of a message: keys sort as numbers do."""
    return MESSAGE + number.to_bytes(NUMBER_BYTES)


def number_of(key: bytes) -> int:
    """Return the number in the key of a message."""
    if len(key) != len(MESSAGE) + NUMBER_BYTES:
        raise BadRow(f"the key of a message has {len(key)} bytes; {_REMEDY}")
    return int.from_bytes(key[len(MESSAGE) :])


def watch_key(watch: StandingQuery) -> bytes:
    """Return the key of a standing query."""
    return WATCH + watch.asker + watch.pattern.value + watch.pattern.mask


def watch_of(key: bytes) -> StandingQuery:
    """Return the standing query in a key."""
    rest = key[len(WATCH) :]
    asker, value, mask = rest[:32], rest[32 : 32 + KEY_BYTES], rest[32 + KEY_BYTES :]
    try:
        return StandingQuery(PublicKey(asker), Pattern(value, mask))
    except (Malformed, InvalidKey) as error:
        raise BadRow(f"the key of a standing query cannot be read: {error}; {_REMEDY}") from None


def told_of(key: bytes) -> bytes:
    """Return the id in the key of a message that was sent to askers."""
    return _rest(key, TOLD, ID_BYTES, "a message that was told of")


def secret_hash_of(key: bytes) -> bytes:
    """Return the hash in the key of a secret."""
    return _rest(key, SECRET, HASH_BYTES, "a secret")


def _rest(key: bytes, kind: bytes, size: int, name: str) -> bytes:
    rest = key[len(kind) :]
    if len(rest) != size:
        raise BadRow(f"the key of {name} has {len(rest)} bytes instead of {size}; {_REMEDY}")
    return rest


def encode_state(last: int) -> bytes:
    """Return the row of the last number given."""
    return encode([VERSION, last])


def read_state(data: bytes) -> int:
    """Return the last number given; raise `BadRow`, also for the row of another version."""

    def read(value: Any) -> int:
        version, last = shape.array(value, "it", 2, 2)
        if shape.uint(version, "the version") != VERSION:
            raise BadRow(
                f"the directory is of version {version} of the CAPD pool's store, and this program knows version "
                f"{VERSION}; start the program that wrote it, or give the service another name, and so a directory"
            )
        return shape.uint(last, "the last number")

    return _read(data, "the state", read)


def encode_kept(kept: Kept) -> bytes:
    """Return the row of a message; its number is in the key."""
    return encode([kept.id, KEPT.index(kept.life), kept.message.encoded()])


def read_kept(data: bytes) -> Kept:
    """Return the contents of a message's row. Raise `BadRow`. Nearly all rows have a short message: those are parsed in
    one pass."""
    if data.startswith(_KEPT_HEAD) and len(data) > _AT_WIRE:
        life, kind, size = data[_AT_LIFE:_AT_WIRE]
        if kind == _SHORT and size >= _SHORT_MIN and len(data) == _AT_WIRE + size and life < len(KEPT):
            try:
                return Kept(data[len(_KEPT_HEAD) : _AT_LIFE], KEPT[life], read_canonical(data[_AT_WIRE:]))
            except Malformed as error:
                raise BadRow(f"the row of a message cannot be read: {error}; {_REMEDY}") from None

    def read(value: Any) -> Kept:
        own_id, life, wire = shape.array(value, "it", 3, 3)
        message = read_canonical(shape.octets(wire, "the message", 0, 2 * MESSAGE_BYTES_MAX))
        return Kept(
            shape.octets(own_id, "the id", ID_BYTES), KEPT[shape.uint(life, "its life", len(KEPT) - 1)], message
        )

    return _read(data, "the row of a message", read)


def encode_until(until_s: int) -> bytes:
    """Return the row of a standing query, or of a message that was sent to askers: the Unix second at which it ends."""
    return encode(until_s)


def read_until(data: bytes) -> int:
    return _read(data, "an end", lambda value: shape.uint(value, "it"))


def encode_secret(secret: bytes, until_s: int) -> bytes:
    """Return the row of a secret that has ended messages; the hash is in the key."""
    return encode([secret, until_s])


def read_secret(data: bytes) -> tuple[bytes, int]:
    """Return a secret, and the Unix second until which it is passed on."""

    def read(value: Any) -> tuple[bytes, int]:
        secret, until_s = shape.array(value, "it", 2, 2)
        return shape.octets(secret, "the secret", 0, SECRET_BYTES_MAX), shape.uint(until_s, "the end")

    return _read(data, "the row of a secret", read)


def _read(data: bytes, name: str, read: Callable[[Any], T]) -> T:
    try:
        return read(decode(data, 4))
    except Malformed as error:
        raise BadRow(f"{name} cannot be read: {error}; {_REMEDY}") from None
