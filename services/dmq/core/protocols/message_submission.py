"""Message submission between nodes (CIP-137): one side, the consumer, asks for ids and bodies; the other, the provider,
answers. It has three revisions, whose messages mean the same under other numbers:

    revision      numbers                                                        the initiator
    cip-29ffe0e   0 init, 1 ids?, 2 ids, 3 bodies?, 4 bodies, 5 done             provides   (seed 000)
    version 1     6 init, 0 ids?, 1 ids, 2 bodies?, 3 bodies, 4 done             provides   (dmq-node)
    version 2     1 ids?, 2 ids, 3 no ids, 4 bodies?, 5 bodies, 6 done           consumes   (dmq-node)

The classes have dmq-node's names; seed 000 says Message where these say Sig. Lists are written as dmq-node writes them,
of indefinite length but in seed 000, and read in either form. Messages are carried as encoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from struct import Struct as Layout
from typing import Any, NamedTuple

from msgspec import Struct

from router.core.link.machine import Agency, Row, Table
from router.core.wire.codec import Malformed, encode, head

from ..cbor import ARRAY, UINT, Reader, array_of, indefinite
from ..messages.signed_message import FREE_ID_BYTES_MAX, usual_end

NUMBER = 11
"""The protocol's number in the multiplexer."""
INGRESS_BYTES_MAX = 101_640
"""Most bytes of this protocol that wait for their turn: 92,400 of bodies in flight, and a tenth."""
COUNT_BITS, SIZE_BITS = 16, 32
ITEMS_MAX = 1_000
"""Most ids or bodies in one message that is read. A peer's window has 132, and 60,000 empty ids took a tenth of a
second before they could be judged."""
ID_BYTES_MAX, BODIES_BYTES_MAX = 65_535, 98_000
"""The longest message of the protocol, and the longest with bodies: 35 of 2,800 bytes."""
BLOCKING_S, ANSWER_S = 20.0, 10.0
"""Seconds that a provider has for the answer to a request that blocks (version 2), and to any other."""
IdAndSize = tuple[bytes, int]
"""The id of a message that a peer announces, and the length of the message as encoded."""


class MsgInit(Struct, frozen=True):
    """The provider begins; not in version 2."""


class MsgRequestSigIdsBlocking(Struct, frozen=True):
    """The consumer acknowledges so many ids, and asks for at most `requested` new ones; answered when there is one."""

    acknowledged: int
    requested: int


class MsgRequestSigIdsNonBlocking(Struct, frozen=True):
    """A request for ids that is answered at once, also with none."""

    acknowledged: int
    requested: int


class MsgReplySigIds(Struct, frozen=True):
    """The ids that the provider announces, each with the length of its message as encoded; empty only if the request
    did not block."""

    announced: tuple[IdAndSize, ...]


class MsgReplyNoSigIds(Struct, frozen=True):
    """Nothing has come while the request blocked; in version 2 alone."""


class MsgRequestSigs(Struct, frozen=True):
    """The consumer asks for the bodies of announced messages."""

    ids: tuple[bytes, ...]


class MsgReplySigs(Struct, frozen=True):
    """The messages that were asked for and are still there, as encoded."""

    messages: tuple[bytes, ...]


class MsgDone(Struct, frozen=True):
    """The initiator ends the protocol."""


RequestSigIds = MsgRequestSigIdsBlocking | MsgRequestSigIdsNonBlocking
Request = RequestSigIds | MsgRequestSigs
Answer = MsgReplySigIds | MsgReplyNoSigIds | MsgReplySigs
AHEAD = (MsgRequestSigIdsBlocking, MsgRequestSigIdsNonBlocking, MsgRequestSigs)
"""The requests that a consumer may send before earlier ones are answered."""
Message = MsgInit | Request | Answer | MsgDone


class St(Enum):
    """The states of all revisions."""

    INIT = "StInit"
    IDLE = "StIdle"
    SIG_IDS_BLOCKING = "StSigIdsBlocking"
    SIG_IDS_NON_BLOCKING = "StSigIdsNonBlocking"
    SIGS = "StSigs"
    DONE = "StDone"

    __hash__ = object.__hash__  # as of `Agency`


_REQUESTS = {
    MsgRequestSigIdsBlocking: St.SIG_IDS_BLOCKING,
    MsgRequestSigIdsNonBlocking: St.SIG_IDS_NON_BLOCKING,
    MsgRequestSigs: St.SIGS,
}
_IDS = {MsgReplySigIds: St.IDLE}
PROVIDER_BEGINS: Table = {
    St.INIT: Row(Agency.INITIATOR, {MsgInit: St.IDLE}, bytes_max=ID_BYTES_MAX),
    St.IDLE: Row(Agency.RESPONDER, _REQUESTS, bytes_max=ID_BYTES_MAX),
    St.SIG_IDS_BLOCKING: Row(Agency.INITIATOR, {**_IDS, MsgDone: St.DONE}, bytes_max=ID_BYTES_MAX),
    St.SIG_IDS_NON_BLOCKING: Row(Agency.INITIATOR, _IDS, ANSWER_S, ID_BYTES_MAX),
    St.SIGS: Row(Agency.INITIATOR, {MsgReplySigs: St.IDLE}, ANSWER_S, BODIES_BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}
"""Seed 000 and version 1."""
CONSUMER_BEGINS: Table = {
    St.IDLE: Row(Agency.INITIATOR, {**_REQUESTS, MsgDone: St.DONE}, bytes_max=ID_BYTES_MAX),
    St.SIG_IDS_BLOCKING: Row(Agency.RESPONDER, {**_IDS, MsgReplyNoSigIds: St.IDLE}, BLOCKING_S, ID_BYTES_MAX),
    St.SIG_IDS_NON_BLOCKING: Row(Agency.RESPONDER, _IDS, ANSWER_S, ID_BYTES_MAX),
    St.SIGS: Row(Agency.RESPONDER, {MsgReplySigs: St.IDLE}, ANSWER_S, BODIES_BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}
"""Version 2."""


class _Item(Enum):
    """The kinds of messages, as far as their numbers go; each with the number of items in its list."""

    INIT = "init", 1
    ASK_IDS = "ask for ids", 4
    IDS = "ids", 2
    NO_IDS = "no ids", 1
    ASK_BODIES = "ask for bodies", 2
    BODIES = "bodies", 2
    DONE = "done", 1

    __hash__ = object.__hash__  # as of `Agency`


class MessageSubmission(NamedTuple):
    """A revision of the protocol. `numbers`: that of each kind of message; `kinds`: the kinds, by number and length of
    the list; `provider`: the side of an instance that provides; `is_indefinite`: how its lists are written."""

    name: str
    table: Table
    numbers: Mapping[_Item, int]
    kinds: Mapping[tuple[int, int], _Item]
    provider: Agency
    is_indefinite: bool = True

    @classmethod
    def of(
        cls, name: str, table: Table, numbers: Mapping[_Item, int], provider: Agency, *, is_indefinite: bool = True
    ) -> MessageSubmission:
        """Return the revision of these numbers."""
        kinds = {(number, kind.value[1]): kind for kind, number in numbers.items()}
        return cls(name, table, numbers, kinds, provider, is_indefinite)

    def encode(self, message: Message) -> bytes:
        """Return the bytes of a message, with the tag that this revision gives it."""
        match message:
            case MsgInit():
                return encode([self.numbers[_Item.INIT]])
            case MsgRequestSigIdsBlocking(acknowledged, requested):
                return encode([self.numbers[_Item.ASK_IDS], True, acknowledged, requested])
            case MsgRequestSigIdsNonBlocking(acknowledged, requested):
                return encode([self.numbers[_Item.ASK_IDS], False, acknowledged, requested])
            case MsgReplySigIds(announced):
                return self._listed(_Item.IDS, [_spelled(own_id, size) for own_id, size in announced])
            case MsgReplyNoSigIds():
                return encode([self.numbers[_Item.NO_IDS]])
            case MsgRequestSigs(ids):
                return self._listed(_Item.ASK_BODIES, [_octets(one) for one in ids])
            case MsgReplySigs(messages):
                return self._listed(_Item.BODIES, messages)
            case MsgDone():
                return encode([self.numbers[_Item.DONE]])

    def decode(self, data: bytes) -> Message:
        """Return the message; raise `Malformed` for any other bytes. The messages in it are not parsed."""
        reader = Reader(data)
        length = reader.array("a message of message submission", 1, 2, 4)
        number = reader.uint("its number", 8)
        kind = self.kinds.get((number, length))
        if kind is None:
            raise Malformed(f"message {number} of {length} items is not one of message submission in {self.name}")
        found = _read(reader, kind)
        reader.finish("the message")
        return found

    def _listed(self, kind: _Item, items: Sequence[bytes]) -> bytes:
        listed = indefinite(*items) if self.is_indefinite else head(len(items), ARRAY) + b"".join(items)
        return array_of(encode(self.numbers[kind]), listed)


SEED = MessageSubmission.of(
    "cip-29ffe0e",
    PROVIDER_BEGINS,
    {_Item.INIT: 0, _Item.ASK_IDS: 1, _Item.IDS: 2, _Item.ASK_BODIES: 3, _Item.BODIES: 4, _Item.DONE: 5},
    Agency.INITIATOR,
    is_indefinite=False,
)
VERSIONS = {
    1: MessageSubmission.of(
        "version 1",
        PROVIDER_BEGINS,
        {_Item.INIT: 6, _Item.ASK_IDS: 0, _Item.IDS: 1, _Item.ASK_BODIES: 2, _Item.BODIES: 3, _Item.DONE: 4},
        Agency.INITIATOR,
    ),
    2: MessageSubmission.of(
        "version 2",
        CONSUMER_BEGINS,
        {_Item.ASK_IDS: 1, _Item.IDS: 2, _Item.NO_IDS: 3, _Item.ASK_BODIES: 4, _Item.BODIES: 5, _Item.DONE: 6},
        Agency.RESPONDER,
    ),
}
"""The revision of each version of the handshake between nodes."""


def check_in(state: Enum, message: Message) -> None:
    """Raise `Malformed` for an answer that its request does not allow."""
    if state is St.SIG_IDS_BLOCKING and message == MsgReplySigIds(()):
        raise Malformed("the answer to a request that blocks announces nothing")


def _spelled(own_id: bytes, size: int) -> bytes:
    """Return an id and its size as encoded."""
    if len(own_id) == 32 and 0xFF < size < 1 << 16:  # nearly all
        return b"\x82\x58\x20" + own_id + b"\x19" + size.to_bytes(2, "big")
    return b"\x82" + _octets(own_id) + head(size, UINT)


def _octets(content: bytes) -> bytes:
    return b"\x58\x20" + content if len(content) == 32 else head(len(content)) + content


def _read(reader: Reader, kind: _Item) -> Message:
    match kind:
        case _Item.INIT:
            return MsgInit()
        case _Item.ASK_IDS:
            blocks = reader.boolean("blocking")
            acknowledged = reader.uint("the acknowledged", COUNT_BITS)
            requested = reader.uint("the requested", COUNT_BITS)
            asks = MsgRequestSigIdsBlocking if blocks else MsgRequestSigIdsNonBlocking
            return asks(acknowledged, requested)
        case _Item.IDS:
            usual = _usual_items(reader, _LIST_OF_ANNOUNCED, _ANNOUNCED)
            listed = usual or [_announced(reader) for _ in reader.items("the ids", ITEMS_MAX)]
            return MsgReplySigIds(tuple(listed))
        case _Item.NO_IDS:
            return MsgReplyNoSigIds()
        case _Item.ASK_BODIES:
            ids = [one for (one,) in _usual_items(reader, _LIST_OF_IDS, _ID)]
            return MsgRequestSigs(tuple(ids or [_id(reader) for _ in reader.items("the ids", ITEMS_MAX)]))
        case _Item.BODIES:
            data = reader.data
            return MsgReplySigs(tuple([data[reader.skip(usual_end)] for _ in reader.items("the messages", ITEMS_MAX)]))
    return MsgDone()


_LIST_OF_ANNOUNCED = re.compile(rb"\x9f((?:\x82\x58\x20.{32}\x19..)+)\xff", re.DOTALL)
_LIST_OF_IDS = re.compile(rb"\x9f((?:\x58\x20.{32})+)\xff", re.DOTALL)
"""Lists of indefinite length of digests, with sizes of two bytes or alone, as nearly all are; and their items."""
_ANNOUNCED, _ID = Layout(">3x32sxH"), Layout(">2x32s")


def _usual_items(reader: Reader, listed: re.Pattern[bytes], item: Layout) -> list[Any]:
    """Read the items of a list if they are spelled as usual, and not too many; else read nothing, and return none."""
    found = listed.match(reader.data, reader.at)
    if found is None or len(items := found[1]) > item.size * ITEMS_MAX:
        return []
    reader.at = found.end()
    return list(item.iter_unpack(items))


def _announced(reader: Reader) -> IdAndSize:
    reader.array("an id and its size", 2)
    return _id(reader), reader.uint("the size", SIZE_BITS)


def _id(reader: Reader) -> bytes:
    return reader.data[reader.octets("an id", 0, FREE_ID_BYTES_MAX)]
