"""Who may say what on a link, and when: the table of its handshake and talk (`docs/link.md`)."""

from __future__ import annotations

from enum import Enum

from . import link
from .machine import Agency, Row, Table


class Message:
    """The table's word for every routed message, unicast or multicast."""


class St(Enum):
    """The states of one direction of a link (`docs/link.md`)."""

    HELLO = "StHello"
    PROOF = "StProof"
    OPEN = "StOpen"
    CLOSING = "StClosing"


_TALK = {
    Message: St.OPEN, link.Settled: St.OPEN, link.Refused: St.OPEN, link.Ping: St.OPEN, link.Pong: St.OPEN,
    link.Outcome: St.OPEN, link.Missed: St.OPEN, link.Redelivered: St.OPEN, link.Goodbye: St.CLOSING,
}  # fmt: skip
_LAST_WORDS = {link.Settled: St.CLOSING, link.Refused: St.CLOSING}


def _table(after_hello: St, hello_s: float) -> Table:
    return {
        St.HELLO: Row(Agency.RESPONDER, {link.Hello: after_hello, link.Goodbye: St.CLOSING}, hello_s),
        St.PROOF: Row(Agency.RESPONDER, {link.Proof: St.OPEN, link.Goodbye: St.CLOSING}, hello_s),
        St.OPEN: Row(Agency.RESPONDER, _TALK),
        St.CLOSING: Row(Agency.RESPONDER, _LAST_WORDS, 5.0),
    }


# What the peer may say to us; what we may say to it is the same table at the other end.
PROVEN = _table(St.OPEN, 10.0)  # the transport has proven the peer's key (TLS)
PROVING = _table(St.PROOF, 10.0)  # the link proves it (Unix socket, WebSocket, memory)
