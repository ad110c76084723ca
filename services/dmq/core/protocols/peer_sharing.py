"""Peer sharing between nodes: the initiator asks for so many addresses, and the other side answers with at most those.

    [0, amount] MsgShareRequest    [1, [*address]] MsgSharePeers    [2] MsgDone
    address: [0, word32, port] or [1, word32, word32, word32, word32, port]

The word of an IPv4 address holds its bytes in the order of the deployed machines, the last one first. The four words of
an IPv6 address are read as dmq-node writes them; gouroboros writes the bytes of each the other way round, which shows
where one reading alone is a global address.
"""

from __future__ import annotations

import ipaddress
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from router.core.link.machine import Agency, Row, Table
from router.core.wire.codec import Malformed, encode

from ..cbor import Reader, array_of, indefinite

NUMBER = 13
"""The protocol's number in the multiplexer."""
INGRESS_BYTES_MAX = 5_760
"""Most bytes of this protocol that wait for their turn."""
AMOUNT_BITS = 8
ADDRESSES_MAX = 255
BUSY_S = 60.0
"""Seconds that a node has for its answer."""
_GLOBAL = ipaddress.ip_network("2000::/3")
_BYTES_MAX = 5_760
_WORD, _PORT = 32, 16


class PeerAddress(NamedTuple):
    """Where a node listens."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class MsgShareRequest(Struct, frozen=True):
    """The question."""

    amount: int


class MsgSharePeers(Struct, frozen=True):
    """The answer."""

    addresses: tuple[PeerAddress, ...]


class MsgDone(Struct, frozen=True):
    """The initiator ends the protocol."""


Message = MsgShareRequest | MsgSharePeers | MsgDone


class St(Enum):
    """The states of the protocol."""

    IDLE = "StIdle"
    BUSY = "StBusy"
    DONE = "StDone"


TABLE: Table = {
    St.IDLE: Row(Agency.INITIATOR, {MsgShareRequest: St.BUSY, MsgDone: St.DONE}, bytes_max=_BYTES_MAX),
    St.BUSY: Row(Agency.RESPONDER, {MsgSharePeers: St.IDLE}, BUSY_S, _BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}


def encode_message(message: Message) -> bytes:
    match message:
        case MsgShareRequest(amount):
            return encode([0, amount])
        case MsgSharePeers(()):
            return array_of(b"\x01", b"\x80")
        case MsgSharePeers(addresses):
            return array_of(b"\x01", indefinite(*map(encode_address, addresses)))
        case MsgDone():
            return encode([2])


def decode_message(data: bytes) -> Message:
    """Return the message; raise `Malformed` for any other bytes."""
    reader = Reader(data)
    length = reader.array("a message of peer sharing", 1, 2)
    kind = reader.uint("its number", 8)
    if kind > 2 or length != (1 if kind == 2 else 2):
        raise Malformed(f"message {kind} of {length} items is not one of peer sharing")
    found: Message = MsgDone()
    if kind == 0:
        found = MsgShareRequest(reader.uint("the amount", AMOUNT_BITS))
    elif kind == 1:
        found = MsgSharePeers(tuple(_address(reader) for _ in reader.items("the addresses", ADDRESSES_MAX)))
    reader.finish("the message")
    return found


def encode_address(address: PeerAddress) -> bytes:
    packed = ipaddress.ip_address(address.ip).packed
    if len(packed) == 4:
        return encode([0, int.from_bytes(packed, "little"), address.port])
    words = [int.from_bytes(packed[at : at + 4], "big") for at in range(0, 16, 4)]
    return encode([1, *words, address.port])


def decode_address(data: bytes) -> PeerAddress:
    """Return the address; raise `Malformed` for any other bytes."""
    reader = Reader(data)
    found = _address(reader)
    reader.finish("the address")
    return found


def _address(reader: Reader) -> PeerAddress:
    length = reader.array("an address", 3, 6)
    kind = reader.uint("its number", 8)
    if kind > 1 or length != (3 if kind == 0 else 6):
        raise Malformed(f"an address of number {kind} with {length} items is none")
    words = [reader.uint("a word of the address", _WORD) for _ in range(length - 2)]
    port = reader.uint("the port", _PORT)
    return PeerAddress(_ipv4(words[0]) if kind == 0 else _ipv6(words), port)


def _ipv4(word: int) -> str:
    return str(ipaddress.IPv4Address(word.to_bytes(4, "little")))


def _ipv6(words: list[int]) -> str:
    deployed, other = (
        ipaddress.IPv6Address(b"".join(one.to_bytes(4, order) for one in words)) for order in ("big", "little")
    )
    return str(other if other in _GLOBAL and deployed not in _GLOBAL else deployed)
