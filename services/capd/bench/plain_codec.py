"""A CAPD message in the plainest form: a class whose fields are read one by one from a stream.

It was written from the description of the wire form alone, shares nothing with `services/capd/core`, and is the
yardstick of the codec there: for speed in the bench, and for equality in the tests.
"""

from __future__ import annotations

import hashlib
import struct
from io import BytesIO


class PlainError(ValueError):
    """Raised for bytes that are no message."""


class PlainMessage:
    """A CAPD message."""

    def __init__(self) -> None:
        self.create_time = 0
        self.difficulty_bits = 0
        self.nonce = b""
        self.expiration = 0xFFFF
        self.rescind_hash = b"\0" * 20
        self.data = b""

    def deserialize(self, stream: BytesIO) -> None:
        fields = struct.unpack("<B", _exactly(stream, 1))[0]
        self.create_time = struct.unpack("<Q", _exactly(stream, 8))[0]
        self.difficulty_bits = struct.unpack("<I", _exactly(stream, 4))[0]
        self.nonce = _read_string(stream)
        if fields & 1:
            self.expiration = struct.unpack("<H", _exactly(stream, 2))[0]
        if fields & 2:
            self.rescind_hash = _exactly(stream, 20)
        self.data = _read_string(stream)

    def serialize(self) -> bytes:
        fields = 0
        if self.expiration != 0xFFFF:
            fields |= 1
        if self.rescind_hash != b"\0" * 20:
            fields |= 2
        parts = [struct.pack("<B", fields), struct.pack("<Q", self.create_time)]
        parts.append(struct.pack("<I", self.difficulty_bits))
        parts.append(_string(self.nonce))
        if fields & 1:
            parts.append(struct.pack("<H", self.expiration))
        if fields & 2:
            parts.append(self.rescind_hash)
        parts.append(_string(self.data))
        return b"".join(parts)

    def id(self) -> bytes:
        preimage = _string(self.data) + struct.pack("<Q", self.create_time) + self.rescind_hash
        preimage += struct.pack("<H", self.expiration) + struct.pack("<I", self.difficulty_bits)
        stage1 = hashlib.sha256(preimage).digest()
        return hashlib.sha256(hashlib.sha256(stage1 + self.nonce).digest()).digest()

    def target(self) -> int:
        exponent = self.difficulty_bits >> 24
        mantissa = self.difficulty_bits & 0x7FFFFF
        if exponent <= 3:
            return mantissa >> (8 * (3 - exponent))
        return (mantissa << (8 * (exponent - 3))) % (1 << 256)

    def is_solved(self) -> bool:
        return int.from_bytes(self.id(), "little") < self.target()

    def priority(self, now: int) -> float:
        target = self.target()
        initial = float((1 << 248) - 1) / float(target) if target else float("inf")
        if len(self.data) > 100:
            initial = initial / len(self.data) * 100
        return initial - initial / 600 * float((now - self.create_time) % (1 << 64))


def read(wire: bytes) -> PlainMessage:
    """Return the message that the bytes begin with; raise `PlainError`."""
    message = PlainMessage()
    message.deserialize(BytesIO(wire))
    return message


def _exactly(stream: BytesIO, count: int) -> bytes:
    found = stream.read(count)
    if len(found) != count:
        raise PlainError("the bytes end too early")
    return found


def _read_size(stream: BytesIO) -> int:
    size = int(struct.unpack("<B", _exactly(stream, 1))[0])
    least = 0
    if size == 0xFD:
        size, least = int(struct.unpack("<H", _exactly(stream, 2))[0]), 0xFD
    elif size == 0xFE:
        size, least = int(struct.unpack("<I", _exactly(stream, 4))[0]), 0x10000
    elif size == 0xFF:
        size, least = int(struct.unpack("<Q", _exactly(stream, 8))[0]), 0x100000000
    if size < least:
        raise PlainError("the size is not in its shortest form")
    if size > 0x10000000:
        raise PlainError("the size is too large")
    return size


def _read_string(stream: BytesIO) -> bytes:
    return _exactly(stream, _read_size(stream))


def _string(data: bytes) -> bytes:
    if len(data) < 0xFD:
        return struct.pack("<B", len(data)) + data
    if len(data) < 0x10000:
        return struct.pack("<BH", 0xFD, len(data)) + data
    return struct.pack("<BI", 0xFE, len(data)) + data
