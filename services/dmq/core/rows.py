"""The rows that a DMQ node keeps on disk: live messages, pools, consumers, and its own state (cddl/dmq-store.cddl).

Times become whole nanoseconds, from which the same floats are restored. The time of a pool's last message is by a clock
that means nothing after a restart, so it is kept as wall time. A row is accepted only if this version would write it
exactly so.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, TypeVar

import cbor2
import msgspec

from router.core.wire.codec import Malformed, encode, first_of, head
from router.core.wire.errors import RouterError

from .cbor import ARRAY, UINT, Reader
from .clients.cursor import BREAKS_MAX, REPLY_MESSAGES_MAX, SET_ASIDE_MAX, Cursor
from .mempool import Row
from .messages.authentication import Moment, PoolRecord
from .messages.certificate import NUMBER_BITS, POOL_ID_BYTES, PoolId
from .messages.signed_message import FREE_ID_BYTES_MAX, ID_BYTES, Cip29ffe0e, Dmq04, Dmq05
from .protocols.handshake import MAGIC_BITS

T = TypeVar("T")
VERSION = 1
ENCODINGS = (Dmq05.name, Dmq04.name, Cip29ffe0e.name)
KEY_BYTES = 8
SIZE_BITS = 16
TIME_BITS = 64
NAME_BYTES_MAX = 16
_NS = 10**9
_EXACT_FROM_S = 1 << 30
"""Seconds from which a float has at most 22 bits behind the point, so that a billion times these is exact."""
_USUAL = Struct(">3s32s2s28scHcQcQ")
_FRONT, _BETWEEN, _SIZE, _TIME = b"\x85\x58\x20", b"\x58\x1c", b"\x19", b"\x1b"
"""A row with an id of 32 bytes, and the heads of its items."""
_REMEDY = "put a backup of the directory in its place, or move it away, and the node starts with an empty mempool"


class BadRow(RouterError):
    """A row was not written by this version; the text says what is wrong and what to do."""


class State(NamedTuple):
    """The basis of the other rows: the encoding of the messages, the network, and the last number used."""

    encoding: str
    magic: int
    last: int


def key_of(number: int) -> bytes:
    """Return the key of a message: keys sort as numbers do."""
    return number.to_bytes(KEY_BYTES, "big")


def number_of(key: bytes) -> int:
    if len(key) != KEY_BYTES:
        raise BadRow(f"the key of a message has {len(key)} bytes instead of {KEY_BYTES}; {_REMEDY}")
    return int.from_bytes(key, "big")


def encode_state(state: State) -> bytes:
    return encode([VERSION, *state])


def read_state(data: bytes) -> State:
    """Return the state; raise `BadRow`, also for one of another version."""
    _, encoding, magic, last = _read(data, "the state", _state)
    return State(encoding, magic, last)


def encode_row(row: Row) -> bytes:
    """Return the row of a live message; its number is the key."""
    own_id, pool, size, expires_at, peers_at = row.id, row.pool, row.size, _ns(row.expires_at), _ns(row.peers_at)
    if len(own_id) != ID_BYTES or not _is_usual(size, expires_at, peers_at):
        return encode([own_id, bytes(pool), size, expires_at, peers_at])
    return _USUAL.pack(_FRONT, own_id, _BETWEEN, pool, _SIZE, size, _TIME, expires_at, _TIME, peers_at)


def read_row(number: int, data: bytes) -> Row:
    """Return the row of that message; raise `BadRow`."""
    found = _as_usual(data) or _quickly(data)
    if found is None:
        found = _read(data, f"the row of message {number}", _row)
    own_id, pool, size, expires_at, peers_at = found
    return Row(number, own_id, PoolId(pool), size, expires_at / _NS, peers_at / _NS)


def _as_usual(data: bytes) -> tuple[bytes, bytes, int, int, int] | None:
    """Return what a row holds that is as long as nearly all are: there may be 100,000 of them at a start."""
    if len(data) != _USUAL.size:
        return None
    front, own_id, between, pool, size_head, size, due_head, expires_at, peers_head, peers_at = _USUAL.unpack(data)
    heads = front, between, size_head, due_head, peers_head
    if heads != (_FRONT, _BETWEEN, _SIZE, _TIME, _TIME) or not _is_usual(size, expires_at, peers_at):
        return None
    return own_id, pool, size, expires_at, peers_at


def _is_usual(size: int, expires_at: int, peers_at: int) -> bool:
    """Whether the numbers of a row are so large that none is written shorter."""
    return size >= 1 << 8 and expires_at >= 1 << 32 and peers_at >= 1 << 32


def _quickly(data: bytes) -> tuple[bytes, bytes, int, int, int] | None:
    """Return what a row holds if it is as we write it."""
    try:
        own_id, pool, size, expires_at, peers_at = cbor2.loads(data)
    except (cbor2.CBORDecodeError, ValueError, TypeError, RecursionError, OverflowError):
        return None
    found = own_id, pool, size, expires_at, peers_at
    kinds = tuple(map(type, found)) == (bytes, bytes, int, int, int)
    fits = kinds and len(own_id) <= FREE_ID_BYTES_MAX and len(pool) == POOL_ID_BYTES
    if not fits or not 0 <= size < 1 << SIZE_BITS or min(expires_at, peers_at) < 0:
        return None
    return found if max(expires_at, peers_at) < 1 << TIME_BITS and encode(list(found)) == data else None


def encode_record(record: PoolRecord, now: Moment) -> bytes:
    """Encode the record of a pool, with the wall time of its last message; the pool's id is the key."""
    taken_at = _ns(now.wall_s - (now.mono_s - record.taken_mono_s))
    return head(2, ARRAY) + head(record.issue_number, UINT) + head(taken_at, UINT)


def read_record(data: bytes, now: Moment) -> PoolRecord:
    """Return a pool's record by the clocks of this start; raise `BadRow`.

    If the last message lies in the future, because the wall clock was set back, it counts as heard now.
    """
    issue_number, taken_at = _read(data, "the record of a pool", _record)
    return PoolRecord(issue_number, now.mono_s - max(0.0, now.wall_s - taken_at / _NS))


def encode_cursor(cursor: Cursor) -> bytes:
    """Encode the cursor without the numbers set aside, and without those offered, which are offered anew."""
    return encode([cursor.last, cursor.most, cursor.breaks, cursor.again])


def encode_aside(cursor: Cursor) -> bytes:
    """Encode the numbers set aside, the oldest first."""
    return encode(cursor.set_aside)


def read_cursor(data: bytes, aside: bytes | None) -> Cursor:
    """Return a consumer's cursor from both its rows (None: nothing is set aside); raise `BadRow`."""
    last, most, breaks, again = _read(data, "the cursor of a consumer", _cursor)
    set_aside = [] if aside is None else _read(aside, "what is set aside for a consumer", _numbers)
    return Cursor(last, (), most, breaks, set_aside, again)


def kept_value(decoder: msgspec.msgpack.Decoder[T], data: bytes, name: str) -> T:
    """Return what stands in a row that is kept in MessagePack."""
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise BadRow(f"{name} cannot be read: {error}; {_REMEDY}") from None


def _read(data: bytes, name: str, read: Callable[[Reader], T]) -> T:
    """Return the plain values that `read` finds, if there are no others and they are encoded as we do."""
    try:
        found = read(Reader(data))
    except Malformed as error:
        raise BadRow(f"{name} cannot be read: {error}; {_REMEDY}") from None
    if encode(found) != data:
        raise BadRow(f"{name} is not as this program writes it; {_REMEDY}")
    return found


def _state(reader: Reader) -> tuple[int, str, int, int]:
    version = first_of(reader.data)[1]
    if version != VERSION:
        raise BadRow(
            f"the directory is of version {version} of the DMQ node's store, and this program knows version {VERSION}; "
            "start the program that wrote it, or name another directory"
        )
    reader.array("it", 4)
    reader.uint("the version", 64)
    encoding = reader.text("the encoding", NAME_BYTES_MAX)
    if encoding not in ENCODINGS:
        raise Malformed(f"the encoding is none of {', '.join(ENCODINGS)}")
    return version, encoding, reader.uint("the network magic", MAGIC_BITS), reader.uint("the last number", 64)


def _row(reader: Reader) -> tuple[bytes, bytes, int, int, int]:
    reader.array("it", 5)
    own_id = reader.data[reader.octets("the id", 0, FREE_ID_BYTES_MAX)]
    pool = reader.data[reader.octets("the pool", POOL_ID_BYTES)]
    size = reader.uint("the size", SIZE_BITS)
    return own_id, pool, size, reader.uint("its expiry", TIME_BITS), reader.uint("the time for peers", TIME_BITS)


def _record(reader: Reader) -> tuple[int, int]:
    reader.array("it", 2)
    return reader.uint("the issue number", NUMBER_BITS), reader.uint("when it was heard", TIME_BITS)


def _cursor(reader: Reader) -> tuple[int, int, int, list[int]]:
    reader.array("it", 4)
    last, most, breaks = (reader.uint(name, 64) for name in ("the last number", "its most", "its breaks"))
    if not 1 <= most <= REPLY_MESSAGES_MAX or breaks >= BREAKS_MAX:
        raise Malformed(f"replies of {most} messages and {breaks} breaks are out of range")
    return last, most, breaks, _numbers(reader)


def _numbers(reader: Reader) -> list[int]:
    return [reader.uint("a number", 64) for _ in reader.items("the list of numbers", SET_ASIDE_MAX)]


def _ns(wall_s: float) -> int:
    """Return Unix seconds in nanoseconds, rounded so exactly that the nearest float is `wall_s` again."""
    if wall_s >= _EXACT_FROM_S:
        whole = int(wall_s)
        return whole * _NS + int((wall_s - whole) * _NS + 0.5)
    above, below = wall_s.as_integer_ratio()
    return (2 * above * _NS + below) // (2 * below)
