"""The envelope of what Nexa nodes say: magic 4 | command 12 | length 4 | cookie 4 | payload.

The last field of the header was a checksum once. A node writes one until the other has said that it knows cookies,
and nobody checks it. A request carries a cookie in the high half, which its answers repeat: with a low half of ffff
the last of them, or the only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from router.core.wire.codec import Malformed, TooLarge

MAGICS = {
    "nexa": bytes.fromhex("72271221"),
    "testnet": bytes.fromhex("72271222"),
    "stormtest": bytes.fromhex("72271323"),
    "regtest": bytes.fromhex("eae5efea"),
}
PAYLOAD_BYTES_MAX = 4 << 20
LAST = 0xFFFF
_HEAD = Struct("<4s12sII")
_COMMAND = re.compile(rb"([!-~]{1,12})\0*")


class WrongMagic(Malformed):
    """Raised for bytes of another network, or of none."""


class Packet(NamedTuple):
    """One message: its command, its payload, and its cookie."""

    command: str
    payload: bytes = b""
    cookie: int = 0

    def encoded(self, magic: bytes) -> bytes:
        """Return its bytes on that network."""
        return _HEAD.pack(magic, self.command.encode(), len(self.payload), self.cookie) + self.payload


def last_of(request_cookie: int) -> int:
    """Return the cookie of the last answer, or the only one, to a request."""
    return request_cookie | LAST


class Unpacker:
    """Cuts a stream into packets. It holds no more than a payload of `payload_bytes_max` and one read."""

    def __init__(self, magic: bytes, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        self._magic = magic
        self._payload_bytes_max = payload_bytes_max
        self._data = bytearray()

    def __repr__(self) -> str:
        return f"<Unpacker: {len(self._data)} bytes wait>"

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Yield the packets that are complete now; raise `Malformed` at the first that is none, and then always."""
        self._data += data
        while (packet := self._next()) is not None:
            yield packet

    def _next(self) -> Packet | None:
        data = self._data
        if bytes(data[:4]) != self._magic[: len(data)]:
            raise WrongMagic(f"the magic is {bytes(data[:4]).hex()} instead of {self._magic.hex()}: another network")
        if len(data) < _HEAD.size:
            return None
        _, name, length, cookie = _HEAD.unpack_from(data)
        if (command := _COMMAND.fullmatch(name)) is None:
            raise Malformed(f"the command {name!r} is not printable, or not padded with zeros")
        if length > self._payload_bytes_max:
            raise TooLarge(f"a payload of {length} bytes; the limit is {self._payload_bytes_max}")
        end = _HEAD.size + length
        if len(data) < end:
            return None
        packet = Packet(command[1].decode(), bytes(data[_HEAD.size : end]), cookie)
        del data[:end]
        return packet
