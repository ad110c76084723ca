"""Who may say what on a link, and when: the table of its handshake and talk (`docs/link.md`)."""

from __future__ import annotations

from enum import Enum

from router.core.wire import link_items

from .machine import Agency, Row, Table

HELLO_S = 10.0
GOODBYE_S = 5.0


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
        St.HELLO: Row(Agency.RESPONDER, {link_items.Hello: after_hello, link_items.Goodbye: St.CLOSING}, HELLO_S),
        St.PROOF: Row(Agency.RESPONDER, {link_items.Proof: St.OPEN, link_items.Goodbye: St.CLOSING}, HELLO_S),
        St.OPEN: Row(Agency.RESPONDER, _TALK),
        St.CLOSING: Row(Agency.RESPONDER, _LAST_WORDS, GOODBYE_S),
    }


# What the peer may say to us; what we may say to it is the same table at the other end.
PROVEN = _table(St.OPEN)  # the transport has proven the peer's key (TLS)
PROVING = _table(St.PROOF)  # the link proves it (Unix socket, WebSocket, memory)
