"""The greeting of Nexa nodes: `version`, then `extversion`, a map of numbers that says whether a node has a pool."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from msgspec import Struct

from router.core.wire.codec import Malformed, TooLarge
from services.capd.core.serialisation import Reader, vector

PROTOCOL, PROTOCOL_MIN = 80_008, 80_003
EXTVERSION_BIT = 1 << 11
"""The service bit of nodes that know `extversion`; without it CAPD stays off."""
VERSION_KEY, COOKIES_KEY, CAPD_KEY = 0, 0x2_0000_0002, 0x2_0000_000E
EXTVERSION = {VERSION_KEY: 100, COOKIES_KEY: 1, CAPD_KEY: 1}
"""The numbers that we declare."""
AGENT_BYTES_MAX = 256
EXTVERSION_BYTES_MAX = 100_000
EXTVERSION_PAIRS_MAX = 1_024
_HEAD = struct.Struct("<iQq")
_ADDRESS = struct.Struct(">16sH")
_U64, _HEIGHT = struct.Struct("<Q"), struct.Struct("<i")
_NOWHERE = bytes(10) + b"\xff\xff"
_WIDTHS = {0xFD: 2, 0xFE: 4, 0xFF: 8}


class OldProtocol(Malformed):
    """Raised for the version of a node whose protocol is too old."""


class Address(Struct, frozen=True):
    """An address of a node: 16 bytes of IPv6, or of IPv4 mapped into it, and a port."""

    ip: bytes = _NOWHERE + bytes(4)
    port: int = 0
    services: int = 0

    def encoded(self) -> bytes:
        return _U64.pack(self.services) + _ADDRESS.pack(self.ip, self.port)


class Version(Struct, frozen=True):
    """The first message of a node."""

    time_s: int
    nonce: int
    agent: bytes
    protocol: int = PROTOCOL
    services: int = EXTVERSION_BIT
    height: int = 0
    relay: bool = False
    to: Address = Address()
    own: Address = Address()

    @property
    def knows_extversion(self) -> bool:
        return bool(self.services & EXTVERSION_BIT)

    def encoded(self) -> bytes:
        """Return the payload of the version."""
        head = _HEAD.pack(self.protocol, self.services, self.time_s) + self.to.encoded() + self.own.encoded()
        return head + _U64.pack(self.nonce) + vector(self.agent) + _HEIGHT.pack(self.height) + bytes((self.relay,))


def read_version(payload: bytes) -> Version:
    """Return the version in a payload; its last byte may be absent, and what follows is ignored."""
    reader = Reader(payload)
    protocol, services, time_s = _HEAD.unpack(reader.take(_HEAD.size, "protocol, services and time"))
    if protocol < PROTOCOL_MIN:
        raise OldProtocol(f"the protocol {protocol} is too old; {PROTOCOL_MIN} is the least")
    to, own = _read_address(reader), _read_address(reader)
    nonce = reader.uint(8, "the nonce")
    agent = reader.vector("the agent", AGENT_BYTES_MAX)
    height = _HEIGHT.unpack(reader.take(4, "the height"))[0]
    relay = bool(reader.rest and reader.uint(1, "the relay byte"))
    return Version(time_s, nonce, agent, protocol, services, height, relay, to, own)


def _read_address(reader: Reader) -> Address:
    services = reader.uint(8, "the services of an address")
    ip, port = _ADDRESS.unpack(reader.take(_ADDRESS.size, "an address"))
    return Address(ip, port, services)


def encode_extversion(values: Mapping[int, int]) -> bytes:
    """Return the payload of numbers by their keys."""
    pairs = (_number(key) + vector(_number(value)) for key, value in values.items())
    return _number(len(values)) + b"".join(pairs)


def read_extversion(payload: bytes) -> dict[int, int]:
    """Return the numbers of a payload by their keys. Of a key that occurs twice, the later value counts; a value that
    is no number is left out."""
    if len(payload) > EXTVERSION_BYTES_MAX:
        raise TooLarge(f"an extversion of {len(payload)} bytes; the limit is {EXTVERSION_BYTES_MAX}")
    reader = Reader(payload)
    found: dict[int, int] = {}
    if (count := reader.size("the map")) > EXTVERSION_PAIRS_MAX:
        raise TooLarge(f"an extversion of {count} numbers; the limit is {EXTVERSION_PAIRS_MAX}")
    for _ in range(count):
        key = _read_number(reader)
        value = Reader(reader.vector("a value", EXTVERSION_BYTES_MAX))
        try:
            found[key] = _read_number(value)
        except Malformed:
            found.pop(key, None)
    return found


def has_pool(values: Mapping[int, int]) -> bool:
    """Whether a node declares a CAPD pool, by any number but 0."""
    return values.get(CAPD_KEY, 0) != 0


def _number(value: int) -> bytes:
    """Return a number as a compact size of up to 64 bits."""
    for first, width in ((None, 1), (0xFD, 2), (0xFE, 4), (0xFF, 8)):
        if first is None and value < 0xFD:
            return bytes((value,))
        if first is not None and value < 1 << 8 * width:
            return bytes((first,)) + value.to_bytes(width, "little")
    raise ValueError(f"{value} has more than 64 bits")


def _read_number(reader: Reader) -> int:
    first = reader.uint(1, "a number")
    width = _WIDTHS.get(first)
    if width is None:
        return first
    found = reader.uint(width, "a number")
    if len(_number(found)) != 1 + width:
        raise Malformed(f"the number {found} is non-canonical: it has a shorter form")
    return found
