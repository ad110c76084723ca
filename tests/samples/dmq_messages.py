"""Every message of the protocols between a DMQ node and its clients, by revision, shared by several tests."""

from __future__ import annotations

from samples.dmq import BODY, POOLS
from services.dmq.core.messages.signed_message import Cip29ffe0e, Dmq04, Dmq05, Encoding
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s

ENCODINGS: tuple[Encoding, ...] = (Dmq05(), Dmq04(), Cip29ffe0e())
WIRES = {one.name: (one.write(POOLS[0].draft()), one.write(POOLS[1].draft(BODY * 3))) for one in ENCODINGS}
ONE, OTHER = b"\x80", b"\x82\x01\x41m"
"""Messages for notification, which carries any list; these are short."""
SUBMISSION: tuple[s.Message, ...] = (
    s.MsgSubmitMessage(WIRES["dmq-0.5"][0]),
    s.MsgAcceptMessage(),
    s.MsgRejectMessage(s.RejectKind.INVALID, "InvalidKESSignature"),
    s.MsgRejectMessage(s.RejectKind.ALREADY_RECEIVED),
    s.MsgRejectMessage(s.RejectKind.TTL_TOO_LARGE),
    s.MsgRejectMessage(s.RejectKind.OTHER, "other"),
    s.MsgDone(),
)
NOTIFICATION: dict[str, tuple[n.Message, ...]] = {
    "cip-29ffe0e": (n.MsgNextMessages(), n.MsgHasMessages((ONE, OTHER)), n.MsgNoMessages(), n.MsgDone()),
    "overview-2025-04": (
        n.MsgRequestMessagesBlocking(),
        n.MsgRequestMessagesNonBlocking((b"a" * 32, b"b" * 32)),
        n.MsgReplyMessages(()),
        n.MsgReplyMessages((ONE,)),
        n.MsgClientDone(),
        n.MsgServerDone(),
    ),
    "dmq": (
        n.MsgRequestMessagesNonBlocking(),
        n.MsgRequestMessagesBlocking(),
        n.MsgReplyMessagesNonBlocking((), False),
        n.MsgReplyMessagesNonBlocking((ONE, OTHER), True),
        n.MsgReplyMessagesBlocking((ONE,)),
        n.MsgClientDone(),
    ),
}
