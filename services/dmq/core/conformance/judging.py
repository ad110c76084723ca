"""A check of a node's conformance: the bytes sent, the node's expected answers, and how these are judged.

A message is described in words, as `MsgRejectMessage expired`; the description says so if the encoding differs from a
dmq-node's, because dmq-node's own decoders accept no other form.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import groupby
from typing import Any

from msgspec import Struct

from router.core.link.machine import Agency
from router.core.wire.codec import Malformed, decode

from ..cbor import Reader
from ..protocols import handshake, notification, submission
from ..protocols.mux import sdu
from ..protocols.revision import Revision
from ..protocols.submission import RejectKind

CLOSED = "closed"
OPEN = "open"
NOT_AS_WRITTEN = " (not as dmq-node writes it)"
_ITEMS_MAX = 400
_KINDS = {
    RejectKind.INVALID: "invalid",
    RejectKind.ALREADY_RECEIVED: "alreadyReceived",
    RejectKind.OTHER: "other",
}


class Begin(Enum):
    """The state of a connection when a check begins."""

    CONNECTED = "connected"
    AGREED = "agreed"
    """The handshake is done."""
    DRAINED = "drained"
    """The handshake is done, and the consumer has all messages."""


class Check(Struct, frozen=True):
    """A check: `data` is sent, each of `expected` must come in its protocol's order, and the connection must then be
    `then`. Each expectation is a choice of descriptions. `quiet`: how long the node must first be silent, before `data`
    or after it."""

    name: str
    begin: Begin
    state: str
    sent: str
    data: bytes
    expected: tuple[tuple[str, ...], ...] = ()
    then: str = OPEN
    quiet: str = ""
    ping: int = notification.NUMBER

    @property
    def expectation(self) -> str:
        """Describe the expectation."""
        parts = [" or ".join(one) for one in self.expected]
        return in_words([*(["silence"] if self.quiet else []), *parts, *([CLOSED] if self.then == CLOSED else [])])

    def is_met(self, got: Sequence[str]) -> bool:
        """Whether the descriptions, in order within each protocol, are as expected."""
        end = [CLOSED] if self.then == CLOSED else []
        if got[len(got) - len(end) :] != end:
            return False
        found = sorted(got[: len(got) - len(end)], key=_protocol)
        wanted = sorted(self.expected, key=lambda one: _protocol(one[0]))
        return len(found) == len(wanted) and all(one in choice for one, choice in zip(found, wanted, strict=True))


def described(number: int, wire: bytes, revision: Revision) -> str:
    """Describe a node's message; if the bytes are no message of the protocol, say why."""
    try:
        if number == handshake.NUMBER:
            message: Any = handshake.decode_message(wire)
        elif number == submission.NUMBER:
            message = submission.decode_message(wire)
        else:
            message = revision.notification.decode(wire)
    except Malformed as error:
        return f"wrong bytes: {error}"
    words = " ".join([type(message).__name__, *_details(message, revision)])
    return words if _is_as_written(number, wire, message, revision) else words + NOT_AS_WRITTEN


def in_words(parts: Sequence[str]) -> str:
    """Return descriptions in one text, repeated ones with their number."""
    runs = [(one, len(list(run))) for one, run in groupby(parts)]
    return ", ".join(one if count == 1 else f"{count} × {one}" for one, count in runs) or OPEN


def messages_in(number: int, wire: bytes, revision: Revision) -> tuple[bytes, ...]:
    """Return the readable messages of a reply; none for any other message."""
    try:
        reply = revision.notification.decode(wire) if number == notification.NUMBER else None
    except Malformed:
        return ()
    return getattr(reply, "messages", ())


def _details(message: Any, revision: Revision) -> list[str]:
    match message:
        case handshake.MsgAcceptVersion(version, data):
            return [str(version), _version_data(data)]
        case handshake.MsgRefuse(handshake.VersionMismatch(versions)):
            return ["VersionMismatch", *map(str, versions)]
        case handshake.MsgRefuse(handshake.HandshakeDecodeError(version) | handshake.Refused(version) as reason):
            return [type(reason).__name__, str(version)]
        case handshake.MsgQueryReply(versions):
            return list(map(str, versions))
        case submission.MsgRejectMessage(kind):
            two = "expired" if revision.encoding.name.startswith("dmq") else "ttlTooLarge"
            return [_KINDS.get(kind, two)]
    return []


def _version_data(data: bytes) -> str:
    try:
        found = handshake.read_client_data(data)
    except Malformed as error:
        return f"with wrong data: {error}"
    return f"magic {found.magic}" + (" query" if found.query else "")


def _is_as_written(number: int, wire: bytes, message: Any, revision: Revision) -> bool:
    """Whether every length is definite and as short as possible, except for lists of messages, and there is no surplus
    item."""
    if number == notification.NUMBER:
        return revision.notification.encode(message) == wire
    try:
        decode(wire, _ITEMS_MAX)
    except Malformed:
        return False
    if not isinstance(message, submission.MsgRejectMessage):
        return True
    reader = Reader(wire, 2)
    return reader.array("the reason", 1, 2) == (2 if message.kind in submission.WITH_TEXT else 1)


def _protocol(description: str) -> int:
    """Return the protocol whose message a description names, to compare the order within each protocol."""
    if description.startswith(("MsgAcceptMessage", "MsgRejectMessage")):
        return submission.NUMBER
    refers = ("MsgAcceptVersion", "MsgRefuse", "MsgQueryReply")
    return handshake.NUMBER if description.startswith(refers) else notification.NUMBER


def said(number: int, *payloads: bytes, by: Agency = Agency.INITIATOR) -> bytes:
    """Return an SDU for each payload."""
    return b"".join(sdu((number, by), one, 0) for one in payloads)


def pieces(payload: bytes, size: int) -> tuple[bytes, ...]:
    return tuple(payload[at : at + size] for at in range(0, len(payload), size))
