"""Control messages: the bodies of unicasts to and from a router (specification, "Message interface").

    [0, bstr .cbor message]   a multicast from another router's pub/sub service, nesting depth 1 (R-A11, R-C7)
    [1 JOIN] [2 JOIN_ACK] [3 LEAVE] [4 LEAVE_ACK] [5 PULL]      as the specification has them (keys: R-A4)
    [6 REPORT]                to the source of a unicast that ended undelivered; never about a report

Maps are closed, and a group's key must be a valid point (R-B2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from . import shape
from .codec import Malformed, TooLarge, decode, encode, first_of, frame, unframe
from .crypto import MessageId, PublicKey
from .message import MULTICAST, open_message, read_header
from .reasons import REASON_MAX, reason_from
from .text import key_text, short

CONTROL_BYTES_MAX = 256  # except for a carried message, which may be as long as its unicast
CONTROL_ITEMS_MAX = 13  # a report's
CARRIED = b"\x82\x00"
REPORT_STATES = ("expired", "refused", "dropped")
REPORT_WIRE_BYTES_MAX = 512
"""The most bytes of a report with its unicast."""
_REPORT_BEGINS = b"\x82\x06\xa5"


class UnknownControl(Malformed):
    """A type of control message that this version does not know."""


class Carried(Struct, frozen=True):
    """A multicast message in its wire form, its signature unchecked; a VIA in it is stripped on entry (R-C6)."""

    message_wire: bytes


class Join(Struct, frozen=True):
    """A request to receive the group's messages; `local`: only those of this node."""

    group: PublicKey
    local: bool


class JoinAck(Struct, frozen=True):
    """The answer to a JOIN: whether its source is now a subscriber (R-C15)."""

    group: PublicKey
    success: bool


class Leave(Struct, frozen=True):
    """A request to receive the group's messages no longer."""

    group: PublicKey


class LeaveAck(Struct, frozen=True):
    """The answer to a LEAVE."""

    group: PublicKey
    success: bool


class Pull(Struct, frozen=True):
    """A request for one message of the group by its id."""

    group: PublicKey
    message: MessageId


class Report(Struct, frozen=True):
    """The outcome of a unicast that this router could not deliver; `at_s` is in Unix seconds."""

    message: MessageId
    destination: PublicKey
    state: str
    reason: int
    at_s: int

    def __str__(self) -> str:
        reason = reason_from(self.reason)
        message, whom = short(key_text("msg", self.message)), short(key_text("addr", self.destination))
        return f"message {message} to {whom} ended undelivered: {self.state}, {reason.word} ({reason.clause})"


Control = Carried | Join | JoinAck | Leave | LeaveAck | Pull | Report


def encode_control(value: Control) -> bytes:
    """Return the BODY of a control message."""
    match value:
        case Carried(wire):
            return CARRIED + frame(wire)
        case Join(group, local):
            return encode([1, {"addr": group, "local": local}])
        case JoinAck(group, success):
            return encode([2, {"addr": group, "result": int(not success)}])
        case Leave(group):
            return encode([3, {"addr": group}])
        case LeaveAck(group, success):
            return encode([4, {"addr": group, "result": int(not success)}])
        case Pull(group, message):
            return encode([5, {"addr": group, "id": message}])
        case Report(message, destination, state, reason, at_s):
            if state not in REPORT_STATES:
                raise ValueError(f'a report says one of {", ".join(REPORT_STATES)}, not "{state}"')
            body = {"id": message, "dst": destination, "state": state, "reason": int(reason), "at": at_s}
            return encode([6, body])


def decode_control(body: bytes) -> Control:
    """Return the control message in the BODY of a unicast to or from a router; else raise `Malformed`."""
    if body[:2] == CARRIED:
        return _carried(unframe(body, 2))
    if len(body) > CONTROL_BYTES_MAX:
        raise TooLarge(f"a control message of {len(body)} bytes; the limit is {CONTROL_BYTES_MAX}")
    count, kind = first_of(body)
    if count != 2:
        raise Malformed(f"a control message has {count} values instead of 2")
    reader = _READERS.get(kind)
    if reader is None:
        raise UnknownControl(f"control message type {kind} is unknown")
    return reader(decode(body, CONTROL_ITEMS_MAX)[1])


def is_report(data: bytes, start: int, end: int) -> bool:
    """Whether the unicast in these bytes is a report, from whatever router: like all that routers say themselves, it
    has no ttl."""
    if end - start > REPORT_WIRE_BYTES_MAX or data.find(_REPORT_BEGINS, start, end) < 0:
        return False
    try:
        message = open_message(data[start:end])
        return message.ttl_s == 0 and isinstance(decode_control(message.body), Report)
    except Malformed:
        return False


def _carried(wire: bytes) -> Carried:
    if read_header(wire, 0, len(wire)).kind != MULTICAST:
        raise Malformed("only a multicast message may be carried in a unicast")
    return Carried(wire)


def _join(value: Any) -> Join:
    found = shape.fields(value, "JOIN", ("addr", "local"))
    return Join(_group(found), shape.boolean(found["local"], "local"))


def _join_ack(value: Any) -> JoinAck:
    found = shape.fields(value, "JOIN_ACK", ("addr", "result"))
    return JoinAck(_group(found), _success(found))


def _leave(value: Any) -> Leave:
    return Leave(_group(shape.fields(value, "LEAVE", ("addr",))))


def _leave_ack(value: Any) -> LeaveAck:
    found = shape.fields(value, "LEAVE_ACK", ("addr", "result"))
    return LeaveAck(_group(found), _success(found))


def _pull(value: Any) -> Pull:
    found = shape.fields(value, "PULL", ("addr", "id"))
    return Pull(_group(found), shape.message_id(found["id"], "id"))


def _report(value: Any) -> Report:
    found = shape.fields(value, "REPORT", ("id", "dst", "state", "reason", "at"))
    return Report(
        shape.message_id(found["id"], "id"),
        shape.public_key(found["dst"], "dst"),
        shape.word(found["state"], "state", REPORT_STATES),
        shape.uint(found["reason"], "reason", REASON_MAX),
        shape.uint(found["at"], "at"),
    )


def _group(found: dict[str, Any]) -> PublicKey:
    return shape.checked_key(found["addr"], "addr")


def _success(found: dict[str, Any]) -> bool:
    return shape.uint(found["result"], "result", 1) == 0


_READERS: dict[int, Callable[[Any], Control]] = {
    1: _join, 2: _join_ack, 3: _leave, 4: _leave_ack, 5: _pull, 6: _report,
}  # fmt: skip
