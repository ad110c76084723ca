"""The eight commands of CAPD between Nexa nodes.

    capdgetinfo → capdinfo     capdinv, capdgetmsg → capdmsg     capdq → capdqreply     capdremove

Doubles are IEEE, little-endian; bytes that follow a payload are ignored, as by the deployed node.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from router.core.wire.codec import Malformed, TooLarge
from services.capd.core.message import ID_BYTES, CapdMessage, next_message
from services.capd.core.serialisation import SIZE_MAX, Reader, size_head, vector

T = TypeVar("T")
INV_TYPE = 72
INV_IDS_MAX, GET_IDS_MAX = 20_000, 10_000
REPLY_MESSAGES_MAX, REPLY_IDS_MAX = 200, 2_000
MESSAGES_MAX = 5_000
"""Messages in one packet: as many as a Nexa node sends."""
CONTENT_LENGTHS = (2, 4, 8, 16)
MESSAGES, IDS, BAD_LENGTH = 1, 2, 3
SUBSCRIBE = 0x80
_F64, _LINES, _U32, _QUERY = struct.Struct("<d"), struct.Struct("<3d"), struct.Struct("<I"), struct.Struct("<IBII")
_REPLY = struct.Struct("<IB")


class GetInfo(Struct, frozen=True):
    """A request for the lines of a pool."""


class PoolLines(Struct, frozen=True):
    """The lines of a pool; its neighbours are to send it nothing below `relay`."""

    local: float
    relay: float
    highest: float


class Inv(Struct, frozen=True):
    """Ids of messages that have come; an inventory of another type than 72 is ignored."""

    ids: tuple[bytes, ...]
    type: int = INV_TYPE


class GetMsg(Struct, frozen=True):
    """A request for messages by their ids, and the line below which nothing is to be sent from now on."""

    least: float
    ids: tuple[bytes, ...]


class Msg(Struct, frozen=True):
    """Messages; there may be none."""

    messages: tuple[CapdMessage, ...]


class PrefixQuery(Struct, frozen=True):
    """A request for messages or ids whose data begins with `content`; `type` may hold `SUBSCRIBE`."""

    cookie: int
    type: int
    start: int
    quantity: int
    content: bytes


class MessagesReply(Struct, frozen=True):
    """The answer to a query for messages; `total`: the number of all matches."""

    cookie: int
    total: int
    messages: tuple[CapdMessage, ...]


class IdsReply(Struct, frozen=True):
    """The answer to a query for ids."""

    cookie: int
    total: int
    ids: tuple[bytes, ...]


class BadLengthReply(Struct, frozen=True):
    """The answer to a query whose content has an unsupported length; `length`: the low byte of that length."""

    cookie: int
    length: int


class Remove(Struct, frozen=True):
    """A request to end all standing queries with a query cookie."""

    cookie: int


Command = GetInfo | PoolLines | Inv | GetMsg | Msg | PrefixQuery | MessagesReply | IdsReply | BadLengthReply | Remove


def encode_command(value: Command) -> tuple[str, bytes]:
    """Return the name of a command and its payload."""
    match value:
        case GetInfo():
            return "capdgetinfo", b""
        case PoolLines(local, relay, highest):
            return "capdinfo", _LINES.pack(local, relay, highest)
        case Inv(ids, kind):
            return "capdinv", size_head(kind) + _ids(ids)
        case GetMsg(least, ids):
            return "capdgetmsg", _F64.pack(least) + _ids(ids)
        case Msg(messages):
            return "capdmsg", _messages(messages)
        case PrefixQuery(cookie, kind, start, quantity, content):
            return "capdq", _QUERY.pack(cookie, kind, start, quantity) + vector(content)
        case MessagesReply(cookie, total, messages):
            return "capdqreply", _REPLY.pack(cookie, MESSAGES) + _U32.pack(total) + _messages(messages)
        case IdsReply(cookie, total, ids):
            return "capdqreply", _REPLY.pack(cookie, IDS) + _U32.pack(total) + _ids(ids)
        case BadLengthReply(cookie, length):
            return "capdqreply", _REPLY.pack(cookie, BAD_LENGTH) + bytes((length,))
        case Remove(cookie):
            return "capdremove", _U32.pack(cookie)


def decode_command(name: str, payload: bytes) -> Command | None:
    """Return the command of that name; None if it is none of CAPD's. Raise `Malformed` for a bad payload."""
    read = READERS.get(name)
    return None if read is None else read(Reader(payload))


def _ids(ids: Sequence[bytes]) -> bytes:
    return size_head(len(ids)) + b"".join(ids)


def _messages(messages: Sequence[CapdMessage]) -> bytes:
    return size_head(len(messages)) + b"".join(message.encoded() for message in messages)


def _items(
    reader: Reader, name: str, least_bytes: int, read: Callable[[Reader], T], most: int = SIZE_MAX
) -> tuple[T, ...]:
    """Return the items of a vector; refuse a count that the remaining bytes cannot hold before any item is read."""
    count = reader.size(name)
    if count * least_bytes > reader.rest:
        raise TooLarge(f"{name} counts {count}, more than {reader.rest} bytes can hold")
    if count > most:
        raise TooLarge(f"{name} counts {count}; the limit is {most}")
    return tuple(read(reader) for _ in range(count))


def _read_id(reader: Reader) -> bytes:
    return reader.take(ID_BYTES, "an id")


def _read_ids(reader: Reader) -> tuple[bytes, ...]:
    return _items(reader, "the list of ids", ID_BYTES, _read_id)


def _read_messages(reader: Reader) -> tuple[CapdMessage, ...]:
    return _items(reader, "the list of messages", 15, next_message, MESSAGES_MAX)


def _double(reader: Reader) -> float:
    found: float = _F64.unpack(reader.take(_F64.size, "a priority"))[0]
    return found


def _info(reader: Reader) -> PoolLines:
    return PoolLines(_double(reader), _double(reader), _double(reader))


def _inv(reader: Reader) -> Inv:
    kind = reader.size("the type")
    return Inv(_read_ids(reader), kind)


def _query(reader: Reader) -> PrefixQuery:
    cookie, kind, start, quantity = _QUERY.unpack(reader.take(_QUERY.size, "the query"))
    return PrefixQuery(cookie, kind, start, quantity, reader.vector("the content"))


def _reply(reader: Reader) -> Command:
    cookie, kind = _REPLY.unpack(reader.take(_REPLY.size, "the reply"))
    if kind == BAD_LENGTH:
        return BadLengthReply(cookie, reader.uint(1, "the length"))
    total = reader.uint(4, "the total")
    if kind == MESSAGES:
        return MessagesReply(cookie, total, _read_messages(reader))
    if kind == IDS:
        return IdsReply(cookie, total, _read_ids(reader))
    raise Malformed(f"a reply of type {kind}; types are 1, 2 and 3")


READERS: dict[str, Callable[[Reader], Command]] = {
    "capdgetinfo": lambda _: GetInfo(),
    "capdinfo": _info,
    "capdinv": _inv,
    "capdgetmsg": lambda reader: GetMsg(_double(reader), _read_ids(reader)),
    "capdmsg": lambda reader: Msg(_read_messages(reader)),
    "capdq": _query,
    "capdqreply": _reply,
    "capdremove": lambda reader: Remove(reader.uint(4, "the cookie")),
}
