"""Keep-alive between nodes: the initiator asks with a cookie, and the other side answers with the same one.

[0, cookie] MsgKeepAlive    [1, cookie] MsgKeepAliveResponse    [2] MsgDone
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from router.core.link.machine import Agency, Row, Table
from router.core.wire.codec import Malformed, encode

from ..cbor import Reader

NUMBER = 12
"""The protocol's number in the multiplexer."""
INGRESS_BYTES_MAX = 1_408
"""Most bytes of this protocol that wait for their turn."""
COOKIE_BITS = 16
CLIENT_S, SERVER_S = 97.0, 60.0
"""Seconds until the next question, and for an answer."""
EVERY_S = 10.0
"""Seconds from an answer to the next question of ours."""
_BYTES_MAX = 65_535


class MsgKeepAlive(Struct, frozen=True):
    """The question."""

    cookie: int


class MsgKeepAliveResponse(Struct, frozen=True):
    """The answer."""

    cookie: int


class MsgDone(Struct, frozen=True):
    """The initiator ends the protocol."""


Message = MsgKeepAlive | MsgKeepAliveResponse | MsgDone


class St(Enum):
    """The states of the protocol."""

    CLIENT = "StClient"
    SERVER = "StServer"
    DONE = "StDone"


TABLE: Table = {
    St.CLIENT: Row(Agency.INITIATOR, {MsgKeepAlive: St.SERVER, MsgDone: St.DONE}, CLIENT_S, _BYTES_MAX),
    St.SERVER: Row(Agency.RESPONDER, {MsgKeepAliveResponse: St.CLIENT}, SERVER_S, _BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}


def encode_message(message: Message) -> bytes:
    match message:
        case MsgKeepAlive(cookie):
            return encode([0, cookie])
        case MsgKeepAliveResponse(cookie):
            return encode([1, cookie])
        case MsgDone():
            return encode([2])


def decode_message(data: bytes) -> Message:
    """Return the message; raise `Malformed` for any other bytes."""
    reader = Reader(data)
    length = reader.array("a message of keep-alive", 1, 2)
    kind = reader.uint("its number", 8)
    if kind > 2 or length != (1 if kind == 2 else 2):
        raise Malformed(f"message {kind} of {length} items is not one of keep-alive")
    found: Message = MsgDone()
    if kind < 2:
        cookie = reader.uint("the cookie", COOKIE_BITS)
        found = MsgKeepAliveResponse(cookie) if kind else MsgKeepAlive(cookie)
    reader.finish("the message")
    return found
