"""Who may say what on a link, when, and within what limits: the table of its handshake and talk (`docs/link.md`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from router.core.wire import link_items
from router.core.wire.codec import FRAME_BYTES_MAX

from .machine import Agency, Row, Table, with_limits


class Message:
    """The table's word for every routed message, unicast or multicast."""


class St(Enum):
    """The states of one direction of a link (`docs/link.md`)."""

    HELLO = "StHello"
    PROOF = "StProof"
    OPEN = "StOpen"
    CLOSING = "StClosing"


_TALK = {
    Message: St.OPEN, link_items.Settled: St.OPEN, link_items.Refused: St.OPEN,
    link_items.Ping: St.OPEN, link_items.Pong: St.OPEN,
    link_items.Outcome: St.OPEN, link_items.Missed: St.OPEN, link_items.Redelivered: St.OPEN,
    link_items.Goodbye: St.CLOSING,
}  # fmt: skip
_LAST_WORDS = {link_items.Settled: St.CLOSING, link_items.Refused: St.CLOSING}


def _table(after_hello: St) -> Table:
    return {
        St.HELLO: Row(
            Agency.RESPONDER, {link_items.Hello: after_hello, link_items.Goodbye: St.CLOSING},
            timeout_s=10.0, bytes_max=link_items.HELLO_BYTES_MAX,
        ),
        St.PROOF: Row(
            Agency.RESPONDER, {link_items.Proof: St.OPEN, link_items.Goodbye: St.CLOSING},
            timeout_s=10.0, bytes_max=link_items.ITEM_BYTES_MAX,
        ),
        St.OPEN: Row(Agency.RESPONDER, _TALK, bytes_max=FRAME_BYTES_MAX),
        St.CLOSING: Row(Agency.RESPONDER, _LAST_WORDS, timeout_s=5.0, bytes_max=link_items.ITEM_BYTES_MAX),
    }  # fmt: skip


# What the peer may say to us; what we may say to it is the same table at the other end.
PROVEN = _table(St.OPEN)  # the transport has proven the peer's key (TLS)
PROVING = _table(St.PROOF)  # the link proves it (Unix socket, WebSocket, memory)


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """What a configuration may say otherwise: how long hello and proof may each take, and settling after a goodbye;
    how long the rest of a frame is waited for; how many link items a second are taken."""

    hello_s: float = PROVING[St.HELLO].timeout_s
    goodbye_s: float = PROVING[St.CLOSING].timeout_s
    frame_s: float = 300.0
    link_items_per_s: float = 10.0


@cache
def in_force(is_proven: bool, limits: LinkLimits, frame_bytes_max: int) -> Table:
    """The table of a link whose hello announced that frame length, with the limits of this end's configuration."""
    return with_limits(PROVEN if is_proven else PROVING, {
        St.HELLO: {"timeout_s": limits.hello_s}, St.PROOF: {"timeout_s": limits.hello_s},
        St.OPEN: {"bytes_max": frame_bytes_max}, St.CLOSING: {"timeout_s": limits.goodbye_s},
    })  # fmt: skip
