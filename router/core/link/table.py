"""The table of a link's protocol: who may send what, when, and within what limits (`docs/link.md`)."""

from __future__ import annotations

from enum import Enum
from functools import cache

from msgspec import Struct

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
    link_items.OtherRun: St.OPEN, link_items.StoppedRun: St.OPEN,
    link_items.Goodbye: St.CLOSING,
}  # fmt: skip
_LAST_WORDS = {link_items.Settled: St.CLOSING, link_items.Refused: St.CLOSING}


def _table(after_hello: St) -> Table:
    return {
        St.HELLO: Row(
            Agency.RESPONDER,
            {link_items.Hello: after_hello, link_items.Goodbye: St.CLOSING},
            timeout_s=10.0,
            bytes_max=link_items.HELLO_BYTES_MAX,
        ),
        St.PROOF: Row(
            Agency.RESPONDER,
            {link_items.Proof: St.OPEN, link_items.Goodbye: St.CLOSING},
            timeout_s=10.0,
            bytes_max=link_items.ITEM_BYTES_MAX,
        ),
        St.OPEN: Row(Agency.RESPONDER, _TALK, bytes_max=FRAME_BYTES_MAX),
        St.CLOSING: Row(Agency.RESPONDER, _LAST_WORDS, timeout_s=5.0, bytes_max=link_items.ITEM_BYTES_MAX),
    }


# These tables rule what the peer may send to us; what we may send is checked by the same table at the other end.
PROVEN = _table(St.OPEN)  # the transport has proven the peer's key (TLS)
PROVING = _table(St.PROOF)  # the link proves it (Unix socket, WebSocket, memory)


class LinkLimits(Struct, frozen=True):
    """The limits of a link that a configuration may override.

    `hello_s` bounds hello and proof each, `goodbye_s` settling after a goodbye, `frame_s` the wait for the rest of a
    frame, `link_items_per_s` the rate of link items accepted."""

    hello_s: float = PROVING[St.HELLO].timeout_s
    goodbye_s: float = PROVING[St.CLOSING].timeout_s
    frame_s: float = 300.0
    link_items_per_s: float = 10.0


@cache
def in_force(is_proven: bool, limits: LinkLimits, frame_bytes_max: float) -> Table:
    """Return the table of a link for the frame length this end announced, with the limits of its configuration."""
    return with_limits(
        PROVEN if is_proven else PROVING,
        {
            St.HELLO: {"timeout_s": limits.hello_s},
            St.PROOF: {"timeout_s": limits.hello_s},
            St.OPEN: {"bytes_max": frame_bytes_max},
            St.CLOSING: {"timeout_s": limits.goodbye_s},
        },
    )
