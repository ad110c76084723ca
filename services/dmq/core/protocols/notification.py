"""Local message notification: a consumer asks for the messages that the node has received, in three revisions.

    cip-29ffe0e        seed 000: [0] MsgNextMessages, [1, [*m]] MsgHasMessages, [2] MsgNoMessages, [3] MsgDone
    overview-2025-04   seed 001: [0, blocking, *id] MsgRequestMessages…, [1, [*m]] MsgReplyMessages,
                       [2] MsgClientDone, [3] MsgServerDone
    dmq                dmq-node 0.2 to 0.7: [0, blocking] MsgRequestMessages…, [1, [*m], more]
                       MsgReplyMessagesNonBlocking, [2, [+m]] MsgReplyMessagesBlocking, [3] MsgClientDone

Each revision has its own table and codec. Messages are carried as encoded. Lists of them are written as dmq-node writes
them, and read in either form.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from router.core.link.machine import Agency, Row, Table
from router.core.wire.codec import Malformed, encode, head

from ..cbor import ARRAY, Reader, array_of, indefinite
from ..messages.signed_message import FREE_ID_BYTES_MAX, MESSAGE_BYTES_MAX

NUMBER = 15
"""The protocol's number in the multiplexer."""
MESSAGES_MAX = 1000
"""Most messages in a reply that is read; dmq-node sends no more."""
ACKNOWLEDGED_MAX = 1000
REQUEST_BYTES_MAX = 8 + ACKNOWLEDGED_MAX * (FREE_ID_BYTES_MAX + 2)
REPLY_BYTES_MAX = 8 + MESSAGES_MAX * MESSAGE_BYTES_MAX
LOOSE_REPLY = b"\x83\x02"
"""The beginning of a blocking reply with a truth value appended (dmq-node before January 2026), or with the head of
such a list but without the value (pallas)."""


class MsgRequestMessagesNonBlocking(Struct, frozen=True):
    """The consumer asks for the present messages; the node answers at once. `acknowledged`: ids that it has
    received."""

    acknowledged: tuple[bytes, ...] = ()


class MsgRequestMessagesBlocking(Struct, frozen=True):
    """The consumer asks for at least one message; the node answers when there is one."""

    acknowledged: tuple[bytes, ...] = ()


class MsgReplyMessagesNonBlocking(Struct, frozen=True):
    """The present messages, and whether there are more."""

    messages: tuple[bytes, ...]
    has_more: bool


class MsgReplyMessagesBlocking(Struct, frozen=True):
    """One message or several."""

    messages: tuple[bytes, ...]


class MsgReplyMessages(Struct, frozen=True):
    """The present messages (seed 001): after an empty reply the next request must block (F6)."""

    messages: tuple[bytes, ...]


class MsgNextMessages(Struct, frozen=True):
    """The consumer asks for the present messages (seed 000)."""


class MsgHasMessages(Struct, frozen=True):
    """The present messages."""

    messages: tuple[bytes, ...]


class MsgNoMessages(Struct, frozen=True):
    """There are no messages."""


class MsgClientDone(Struct, frozen=True):
    """The consumer ends the protocol."""


class MsgServerDone(Struct, frozen=True):
    """The node ends the protocol."""


class MsgDone(Struct, frozen=True):
    """The consumer ends the protocol (seed 000)."""


Message = (
    MsgRequestMessagesNonBlocking | MsgRequestMessagesBlocking | MsgReplyMessagesNonBlocking
    | MsgReplyMessagesBlocking | MsgReplyMessages | MsgNextMessages | MsgHasMessages | MsgNoMessages
    | MsgClientDone | MsgServerDone | MsgDone
)  # fmt: skip


class St(Enum):
    """The states of all revisions."""

    IDLE = "StIdle"
    BUSY = "StBusy"
    BUSY_BLOCKING = "StBusyBlocking"
    BUSY_NON_BLOCKING = "StBusyNonBlocking"
    DONE = "StDone"


_REQUESTS = {
    MsgRequestMessagesNonBlocking: St.BUSY_NON_BLOCKING,
    MsgRequestMessagesBlocking: St.BUSY_BLOCKING,
    MsgClientDone: St.DONE,
}
CIP_TABLE: Table = {
    St.IDLE: Row(Agency.INITIATOR, {MsgNextMessages: St.BUSY, MsgDone: St.DONE}, bytes_max=REQUEST_BYTES_MAX),
    St.BUSY: Row(Agency.RESPONDER, {MsgHasMessages: St.IDLE, MsgNoMessages: St.IDLE}, bytes_max=REPLY_BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}
_OVERVIEW_REPLIES = {MsgReplyMessages: St.IDLE, MsgServerDone: St.DONE}
OVERVIEW_TABLE: Table = {
    St.IDLE: Row(Agency.INITIATOR, _REQUESTS, bytes_max=REQUEST_BYTES_MAX),
    St.BUSY_BLOCKING: Row(Agency.RESPONDER, _OVERVIEW_REPLIES, bytes_max=REPLY_BYTES_MAX),
    St.BUSY_NON_BLOCKING: Row(Agency.RESPONDER, _OVERVIEW_REPLIES, bytes_max=REPLY_BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}
DMQ_TABLE: Table = {
    St.IDLE: Row(Agency.INITIATOR, _REQUESTS, bytes_max=REQUEST_BYTES_MAX),
    St.BUSY_BLOCKING: Row(Agency.RESPONDER, {MsgReplyMessagesBlocking: St.IDLE}, bytes_max=REPLY_BYTES_MAX),
    St.BUSY_NON_BLOCKING: Row(Agency.RESPONDER, {MsgReplyMessagesNonBlocking: St.IDLE}, bytes_max=REPLY_BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}


class Notification(NamedTuple):
    """A revision of the protocol: its table, the two halves of its codec, the beginning of a loose message, if there is
    one, and the requests that always have the same bytes."""

    name: str
    table: Table
    encode: Callable[[Message], bytes]
    decode: Callable[[bytes], Message]
    loose: bytes = b""
    requests: Mapping[bytes, Message] = {}


def _encode_cip(message: Message) -> bytes:
    match message:
        case MsgNextMessages():
            return encode([0])
        case MsgHasMessages(messages):
            return array_of(b"\x01", _definite(messages))
        case MsgNoMessages():
            return encode([2])
        case MsgDone():
            return encode([3])
    raise _foreign(message)


def _decode_cip(data: bytes) -> Message:
    reader, kind, _ = _begun(data, {0: (1,), 1: (2,), 2: (1,), 3: (1,)})
    found: Message
    match kind:
        case 0:
            found = MsgNextMessages()
        case 1:
            found = MsgHasMessages(_messages(reader))
        case 2:
            found = MsgNoMessages()
        case _:
            found = MsgDone()
    reader.finish("the message")
    return found


def _encode_overview(message: Message) -> bytes:
    match message:
        case MsgRequestMessagesNonBlocking(acknowledged):
            return encode([0, False, *acknowledged])
        case MsgRequestMessagesBlocking(acknowledged):
            return encode([0, True, *acknowledged])
        case MsgReplyMessages(messages):
            return array_of(b"\x01", _definite(messages))
        case MsgClientDone():
            return encode([2])
        case MsgServerDone():
            return encode([3])
    raise _foreign(message)


def _decode_overview(data: bytes) -> Message:
    reader, kind, length = _begun(data, {0: range(2, 3 + ACKNOWLEDGED_MAX), 1: (2,), 2: (1,), 3: (1,)})
    found: Message
    match kind:
        case 0:
            found = _request(reader, length - 2)
        case 1:
            found = MsgReplyMessages(_messages(reader))
        case 2:
            found = MsgClientDone()
        case _:
            found = MsgServerDone()
    reader.finish("the message")
    return found


def _encode_dmq(message: Message) -> bytes:
    match message:
        case MsgRequestMessagesNonBlocking(()):
            return encode([0, False])
        case MsgRequestMessagesBlocking(()):
            return encode([0, True])
        case MsgReplyMessagesNonBlocking(messages, has_more):
            return array_of(b"\x01", indefinite(*messages), encode(has_more))
        case MsgReplyMessagesBlocking(messages):
            return array_of(b"\x02", indefinite(*messages))
        case MsgClientDone():
            return encode([3])
    raise _foreign(message)


def _decode_dmq(data: bytes) -> Message:
    reader, kind, length = _begun(data, {0: (2,), 1: (3,), 2: (2, 3), 3: (1,)})
    found: Message
    match kind:
        case 0:
            found = _request(reader, length - 2)
        case 1:
            found = MsgReplyMessagesNonBlocking(_messages(reader), reader.boolean("hasMore"))
        case 2:
            found = _blocking_reply(reader)
        case _:
            found = MsgClientDone()
    reader.finish("the message")
    return found


_DMQ_REQUESTS: Mapping[bytes, Message] = {
    _encode_dmq(one): one for one in (MsgRequestMessagesNonBlocking(), MsgRequestMessagesBlocking())
}
REVISIONS = {
    one.name: one
    for one in (
        Notification("cip-29ffe0e", CIP_TABLE, _encode_cip, _decode_cip),
        Notification("overview-2025-04", OVERVIEW_TABLE, _encode_overview, _decode_overview),
        Notification("dmq", DMQ_TABLE, _encode_dmq, _decode_dmq, LOOSE_REPLY, _DMQ_REQUESTS),
    )
}


def _begun(data: bytes, lengths: dict[int, Container[int]]) -> tuple[Reader, int, int]:
    """Read the head of the list and its number, which must go together; return the number and the length."""
    reader = Reader(data)
    length = reader.array("a message of local message notification", *range(1, 3 + ACKNOWLEDGED_MAX))
    kind = reader.uint("its number", 8)
    if length not in lengths.get(kind, ()):
        raise Malformed(f"message {kind} of {length} items is not one of local message notification")
    return reader, kind, length


def _request(reader: Reader, ids: int) -> MsgRequestMessagesBlocking | MsgRequestMessagesNonBlocking:
    blocks = reader.boolean("isBlocking")
    acknowledged = [reader.octets("an acknowledged id", 0, FREE_ID_BYTES_MAX) for _ in range(ids)]
    found = tuple(reader.data[place] for place in acknowledged)
    return MsgRequestMessagesBlocking(found) if blocks else MsgRequestMessagesNonBlocking(found)


def _messages(reader: Reader) -> tuple[bytes, ...]:
    return tuple(reader.data[reader.skip()] for _ in reader.items("the messages", MESSAGES_MAX))


def _blocking_reply(reader: Reader) -> MsgReplyMessagesBlocking:
    """Read the rest, whatever the head said: a truth value may follow the messages or not."""
    messages = _messages(reader)
    if not messages:
        raise Malformed("a blocking reply is empty")
    if reader.at < len(reader.data):
        reader.boolean("hasMore")
    return MsgReplyMessagesBlocking(messages)


def _definite(messages: tuple[bytes, ...]) -> bytes:
    return head(len(messages), ARRAY) + b"".join(messages)


def _foreign(message: Message) -> AssertionError:
    return AssertionError(f"{message!r} is not a message of this revision")
