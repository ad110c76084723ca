"""Local message submission: a signer hands a message in, and is told whether it was taken (CIP-137).

    [0, message] MsgSubmitMessage    [1] MsgAcceptMessage    [2, reason] MsgRejectMessage    [3] MsgDone

The seeds and the deployed nodes differ only in the meaning of reason 2: ttlTooLarge, later expired.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from router.core.link.machine import Agency, Row, Table
from router.core.wire.codec import Malformed, encode
from router.core.wire.text import clean

from ..cbor import Reader, array_of
from ..messages.fault import Fault, Rejected
from ..messages.signed_message import MESSAGE_BYTES_MAX

NUMBER = 14
"""The protocol's number in the multiplexer."""
TEXT_BYTES_MAX = 1024
ITEM_BYTES_MAX = MESSAGE_BYTES_MAX + 2


class MsgSubmitMessage(Struct, frozen=True):
    """A message to be distributed, as encoded."""

    message: bytes


class MsgAcceptMessage(Struct, frozen=True):
    """The message was taken."""


class RejectKind(Enum):
    """The reason for which a message was not taken, as far as the protocol can express it."""

    INVALID = 0
    ALREADY_RECEIVED = 1
    TTL_TOO_LARGE = 2
    """Reason 2; in the deployed nodes it means expired."""
    OTHER = 3


WITH_TEXT = (RejectKind.INVALID, RejectKind.OTHER)


class MsgRejectMessage(Struct, frozen=True):
    """The message was not taken; only `invalid` and `other` have a `text`."""

    kind: RejectKind
    text: str = ""


class MsgDone(Struct, frozen=True):
    """The signer has nothing more to hand in."""


Message = MsgSubmitMessage | MsgAcceptMessage | MsgRejectMessage | MsgDone


class St(Enum):
    """The states of the protocol."""

    IDLE = "StIdle"
    BUSY = "StBusy"
    DONE = "StDone"


TABLE: Table = {
    St.IDLE: Row(Agency.INITIATOR, {MsgSubmitMessage: St.BUSY, MsgDone: St.DONE}, bytes_max=ITEM_BYTES_MAX),
    St.BUSY: Row(
        Agency.RESPONDER, {MsgAcceptMessage: St.IDLE, MsgRejectMessage: St.IDLE}, bytes_max=2 * TEXT_BYTES_MAX
    ),
    St.DONE: Row(Agency.NOBODY),
}
_TWO = {"cip-29ffe0e": Fault.TTL_TOO_LARGE}
"""What reason 2 stands for in an encoding of messages; else expired."""
SUBMITS = b"\x82\x00"
"""How a MsgSubmitMessage begins, as everybody writes it."""
_OTHER = (Fault.MEMPOOL_FULL, Fault.POOL_FULL, Fault.PACE_FULL, Fault.DISK_FULL)


def rejection(verdict: Rejected, encoding: str) -> MsgRejectMessage:
    """Return the rejection that expresses this verdict."""
    if verdict.fault is Fault.DUPLICATE:
        return MsgRejectMessage(RejectKind.ALREADY_RECEIVED)
    if verdict.fault is _TWO.get(encoding, Fault.EXPIRED):
        return MsgRejectMessage(RejectKind.TTL_TOO_LARGE)
    return MsgRejectMessage(RejectKind.OTHER if verdict.fault in _OTHER else RejectKind.INVALID, verdict.text)


def encode_message(message: Message) -> bytes:
    match message:
        case MsgSubmitMessage(submitted):
            return array_of(b"\x00", submitted)
        case MsgAcceptMessage():
            return b"\x81\x01"
        case MsgRejectMessage(kind, text):
            reason = [kind.value, clean(text, TEXT_BYTES_MAX)] if kind in WITH_TEXT else [kind.value]
            return encode([2, reason])
        case MsgDone():
            return encode([3])


def decode_message(data: bytes) -> Message:
    """Return the message; raise `Malformed` for any other bytes. A submitted message itself is not parsed.

    A reason without a text is read with one, too, as gouroboros writes it.
    """
    reader = Reader(data)
    length = reader.array("a message of local message submission", 1, 2)
    kind = reader.uint("its number", 8)
    if kind > 3 or length != (2 if kind in (0, 2) else 1):
        raise Malformed(f"message {kind} of {length} items is not one of local message submission")
    found = _read(reader, kind)
    reader.finish("the message")
    return found


def decode_item(item: bytes) -> Message:
    """Return the message, like `decode_message`, of bytes that are known to be one item: a submitted message, the bulk
    of what comes, is cut out without reading it twice."""
    return MsgSubmitMessage(item[2:]) if item.startswith(SUBMITS) else decode_message(item)


def _read(reader: Reader, kind: int) -> Message:
    if kind == 0:
        return MsgSubmitMessage(reader.data[reader.skip()])
    if kind == 2:
        return _read_reason(reader)
    return MsgAcceptMessage() if kind == 1 else MsgDone()


def _read_reason(reader: Reader) -> MsgRejectMessage:
    length = reader.array("the reason", 1, 2)
    number = reader.uint("the reason's number", 8)
    if number > 3:
        raise Malformed(f"reason {number} is unknown; 0 to 3 are known")
    kind = RejectKind(number)
    if length == 1 and kind in WITH_TEXT:
        raise Malformed(f"reason {number} lacks its text")
    text = reader.text("the reason's text", TEXT_BYTES_MAX) if length == 2 else ""
    return MsgRejectMessage(kind, clean(text, TEXT_BYTES_MAX) if kind in WITH_TEXT else "")
