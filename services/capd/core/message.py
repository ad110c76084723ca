"""A CAPD message: its bytes, its id, its work, its expiration, and the secret that rescinds it.

    fields 1 | createTime 8 | difficultyBits 4 | nonce vector | expiration 2, if bit 0 | rescindHash 20, if bit 1
    | data vector

The id is a hash of canonical values, not of these bytes, so a message has one id however it was encoded:

    stage1 = SHA256(data vector | createTime | rescindHash | expiration | difficultyBits)
    id     = SHA256(SHA256(stage1 | nonce))

An absent expiration is hashed as ffff, an absent rescind hash as zeros. The work is done if the id, read as a
little-endian number, is strictly below the target.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct as Layout

from msgspec import Struct

from router.core.wire.codec import Malformed

from .compact_bits import target_bytes, target_of
from .priority import LIFE_S, initial_priority, priority_at
from .ripemd160 import ripemd160
from .serialisation import LONG, Reader, vector

ID_BYTES, HASH_BYTES, REPLY_BYTES = 32, 20, 16
NEVER = 0xFFFF
NO_HASH = bytes(HASH_BYTES)
COUNTED_BYTES = 128
"""Bytes that the reference counts for a message in addition to its data."""
SECRET_BYTES_MAX = 520
_EXPIRES, _RESCINDABLE = 1, 2
_HEAD, _U16, _START = Layout("<BQI"), Layout("<H"), Layout("<BQIB")
_TAIL = Layout("<Q20sHI")
_unpack_start, _pack_tail = _START.unpack_from, _TAIL.pack
_new_sha256 = sha256().copy
"""Makes a hash object faster than the constructor does."""
_START_BYTES, _OPTIONAL = _START.size, _EXPIRES | _RESCINDABLE


class CapdMessage(Struct, frozen=True, gc=False):
    """A message of the pool. `expiration`: seconds after `create_time`, `NEVER` if it does not expire.

    A struct: creating one takes a tenth of the time of a frozen dataclass."""

    data: bytes
    create_time: int
    difficulty_bits: int
    nonce: bytes = b""
    expiration: int = NEVER
    rescind_hash: bytes = NO_HASH

    def encoded(self) -> bytes:
        """Return the message's bytes in canonical form, the only one that the reference writes."""
        expires, rescindable = self.expiration != NEVER, self.rescind_hash != NO_HASH
        fields = (expires and _EXPIRES) | (rescindable and _RESCINDABLE)
        head = _HEAD.pack(fields, self.create_time, self.difficulty_bits) + vector(self.nonce)
        expiration = _U16.pack(self.expiration) if expires else b""
        return head + expiration + (self.rescind_hash if rescindable else b"") + vector(self.data)

    def stage1(self) -> bytes:
        """Return the 32 bytes to which the nonce is appended."""
        tail = _pack_tail(self.create_time, self.rescind_hash, self.expiration, self.difficulty_bits)
        return sha256(vector(self.data) + tail).digest()

    def own_id(self) -> bytes:
        """Return the message's id as it is sent; people see the bytes reversed."""
        return sha256(sha256(self.stage1() + self.nonce).digest()).digest()

    @property
    def target(self) -> int:
        return target_of(self.difficulty_bits)

    @property
    def counted_bytes(self) -> int:
        """Return the bytes that the message counts for in a pool."""
        return COUNTED_BYTES + len(self.data)

    @property
    def initial_priority(self) -> float:
        return initial_priority(self.difficulty_bits, len(self.data))

    def priority(self, now_s: int) -> float:
        """Return the message's priority at a Unix second."""
        return priority_at(self.difficulty_bits, len(self.data), self.create_time, now_s)

    @property
    def expires_at(self) -> int | None:
        """Return the Unix second of the message's own expiration; None if it never expires."""
        return None if self.expiration == NEVER else self.create_time + self.expiration

    def has_expired(self, now_s: int) -> bool:
        """Whether the message's own expiration has come."""
        return self.expiration != NEVER and now_s >= self.create_time + self.expiration

    @property
    def fades_at(self) -> int:
        """Return the first Unix second at which the message's priority is not above 0."""
        return self.create_time + LIFE_S

    def has_work(self) -> bool:
        """Whether the message's work is done."""
        return is_met(self.own_id(), self.difficulty_bits)


def is_met(own_id: bytes, difficulty_bits: int) -> bool:
    """Whether an id is strictly below the target of these bits; a target of 0 is never met."""
    return own_id[::-1] < target_bytes(difficulty_bits)


def read_message(data: bytes) -> CapdMessage:
    """Return the message at the beginning of the data; like the reference, ignore what follows. Raise `Malformed`."""
    return read_with_id(data)[0]


def read_with_id(data: bytes) -> tuple[CapdMessage, bytes]:
    """Return the message at the beginning of the data, and its id. Raise `Malformed`.

    Nearly all messages have short fields and neither expiration nor rescind hash: these are parsed in one pass, and
    their data is hashed as it was encoded."""
    if len(data) > _START_BYTES:
        fields, create_time, bits, size = _unpack_start(data)
        at = _START_BYTES + size
        body = data[at:]
        if not fields & _OPTIONAL and size < LONG and body and len(body) == body[0] + 1 <= LONG:
            nonce = data[_START_BYTES:at]
            stage1, once, twice = _new_sha256(), _new_sha256(), _new_sha256()
            stage1.update(body + _pack_tail(create_time, NO_HASH, NEVER, bits))
            once.update(stage1.digest() + nonce)
            twice.update(once.digest())
            return CapdMessage(body[1:], create_time, bits, nonce, NEVER, NO_HASH), twice.digest()
    message = next_message(Reader(data))
    return message, message.own_id()


def read_canonical(wire: bytes) -> CapdMessage:
    """Return a message from its canonical form, the only one that the reference writes. Raise `Malformed` for other
    bytes."""
    if len(wire) > _START_BYTES:
        fields, create_time, bits, size = _unpack_start(wire)
        at = _START_BYTES + size
        if not fields and size < LONG and at < len(wire) and len(wire) == at + 1 + wire[at] and wire[at] < LONG:
            return CapdMessage(wire[at + 1 :], create_time, bits, wire[_START_BYTES:at], NEVER, NO_HASH)
    message = next_message(Reader(wire))
    if message.encoded() != wire:
        raise Malformed("the message is not in canonical form")
    return message


def end_of_message(data: bytes) -> int:
    """Return the offset just behind the message at the beginning of the data. Raise `Malformed` if there is none."""
    reader = Reader(data)
    next_message(reader)
    return reader.at


def next_message(reader: Reader) -> CapdMessage:
    """Read the next message; ignore unknown bits of its first byte. Raise `Malformed`."""
    fields = reader.uint(1, "the fields")
    create_time = reader.uint(8, "the creation time")
    bits = reader.uint(4, "the difficulty bits")
    nonce = reader.vector("the nonce")
    expiration = reader.uint(2, "the expiration") if fields & _EXPIRES else NEVER
    rescind_hash = reader.take(HASH_BYTES, "the rescind hash") if fields & _RESCINDABLE else NO_HASH
    return CapdMessage(reader.vector("the data"), create_time, bits, nonce, expiration, rescind_hash)


def rescind_hash_of(secret: bytes) -> bytes:
    """Return the rescind hash of a secret, RIPEMD160(SHA256(secret)). Raise `Malformed` if the secret is too long."""
    if len(secret) > SECRET_BYTES_MAX:
        raise Malformed(f"a rescind secret has {len(secret)} bytes; the limit is {SECRET_BYTES_MAX}")
    return ripemd160(sha256(secret).digest())


def reply_prefix(own_id: bytes) -> bytes:
    """Return the 16 bytes with which the data of a reply to this message begins."""
    return own_id[:REPLY_BYTES]


def shown_id(own_id: bytes) -> str:
    """Return an id as people see it: reversed, so the zeros of its work come first."""
    return own_id[::-1].hex()
