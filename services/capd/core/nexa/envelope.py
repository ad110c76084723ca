"""The envelope of messages between Nexa nodes: magic 4 | command 12 | length 4 | cookie 4 | payload.

The last field of the header was once a checksum. A node writes one until the other has declared that it knows cookies,
and no node checks it. A request carries a cookie in the high half, which its answers repeat; in the last of them, or
the only one, the low half is ffff.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from router.core.wire.codec import Malformed, TooLarge

MAGICS = {
    "nexa": bytes.fromhex("72271221"),
    "testnet": bytes.fromhex("72271222"),
    "stormtest": bytes.fromhex("72271323"),
    "regtest": bytes.fromhex("eae5efea"),
}
PORTS = {7228: "nexa", 7230: "testnet", 7232: "stormtest", 18444: "regtest"}
"""The networks by the ports on which their nodes listen by default."""
PAYLOAD_BYTES_MAX = 4 << 20
SKIPPED_BYTES_MAX = 32 << 20
"""Most bytes of a payload that is not read: it is dropped as it comes, and not held."""
LAST = 0xFFFF
NAMELESS = ""
"""The command of a packet whose header names none: it is skipped, as by the deployed node."""
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
        """Return the packet's bytes on the network with this magic."""
        return _HEAD.pack(magic, self.command.encode(), len(self.payload), self.cookie) + self.payload


def last_of(request_cookie: int) -> int:
    """Return the cookie of the last answer, or the only one, to a request."""
    return request_cookie | LAST


def _anything(command: str) -> int:
    return PAYLOAD_BYTES_MAX


class Unpacker:
    """Cuts a stream into packets. It holds no more than the longest payload that `most_of` allows, and one read.

    `most_of` returns the length limit for the payload of a command; if it is None, the payload is skipped, and the
    packet comes without it."""

    def __init__(self, magic: bytes, most_of: Callable[[str], int | None] = _anything) -> None:
        self._magic = magic
        self._most_of = most_of
        self._data = bytearray()
        self._skip = 0
        self.skipped = 0
        """Bytes of payloads that were skipped so far."""

    def __repr__(self) -> str:
        return f"<Unpacker: {len(self._data)} bytes wait>"

    def __len__(self) -> int:
        """Return the number of bytes that are held of an incomplete packet."""
        return len(self._data)

    @property
    def is_partial(self) -> bool:
        """Whether a packet has begun and is not complete."""
        return bool(self._data) or self._skip > 0

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Yield the packets that the data completes; raise `Malformed` at the first bytes that are no packet, and in
        each later call."""
        self._data += data
        while (packet := self._next()) is not None:
            yield packet

    def _next(self) -> Packet | None:
        data = self._data
        if self._skip:
            dropped = min(self._skip, len(data))
            del data[:dropped]
            self._skip -= dropped
            self.skipped += dropped
        if self._skip or not data:
            return None
        if bytes(data[:4]) != self._magic[: len(data)]:
            raise WrongMagic(f"the magic is {bytes(data[:4]).hex()} instead of {self._magic.hex()}: another network")
        if len(data) < _HEAD.size:
            return None
        _, padded, length, cookie = _HEAD.unpack_from(data)
        command = _COMMAND.fullmatch(padded)
        name = NAMELESS if command is None else command[1].decode()
        most = None if command is None else self._most_of(name)
        if length > (limit := SKIPPED_BYTES_MAX if most is None else most):
            raise TooLarge(
                f"{name or 'a packet without a command'} has a payload of {length} bytes; the limit is {limit}"
            )
        if most is None:
            del data[: _HEAD.size]
            self._skip = length
            return Packet(name, b"", cookie)
        end = _HEAD.size + length
        if len(data) < end:
            return None
        packet = Packet(name, bytes(data[_HEAD.size : end]), cookie)
        del data[:end]
        return packet
