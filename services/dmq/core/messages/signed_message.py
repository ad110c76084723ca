"""The messages of the queue, in the three encodings that exist, by name (CIP-137; docs/dmq.md).

    cip-29ffe0e   the CIP of April 2025: ttl, no expiry, no KES period, the body alone is signed
    dmq-0.4       dmq-node 0.2 to 0.4: the payload is signed and holds a free id
    dmq-0.5       dmq-node 0.5 to 0.7: the id is the digest of the payload, and stands before it

They are read with the place of each part, so that the received bytes are verified, hashed, kept and passed on. The
encoding is configured, never guessed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, Protocol

from msgspec import Struct

from router.core.wire.codec import Malformed, encode

from ..cbor import Reader, array_of, read_head
from .certificate import Certificate, read_certificate, read_cold_key, read_inner
from .kes import SIGNATURE_KES_BYTES, KesSigningKey

ID_BYTES = 32
FREE_ID_BYTES_MAX = 64
CERTIFICATE_BYTES_MAX = 304
MESSAGE_BYTES_MAX = 4096
"""No message of any encoding is longer: a body of 2,000 bytes makes at most 2,790."""


class BodyBounds(NamedTuple):
    """The least and the most bytes of a body; others are no message at all."""

    least: int
    most: int


DEPLOYED, OLDER, SEEDS = BodyBounds(90, 2000), BodyBounds(0, 2000), BodyBounds(360, 2000)
"""The bounds of dmq-node 0.7, of earlier nodes (which had none; the upper one is ours), and of the seeds."""


class SignedMessage(Struct, frozen=True, gc=False):
    """A message as received. `signed`: the bytes under the KES signature. Parts that its encoding lacks are None."""

    wire: bytes
    id: bytes
    body_at: slice
    signed: bytes
    kes_signature: bytes
    certificate: Certificate
    kes_period: int | None = None
    expires_at: int | None = None
    ttl_s: int | None = None
    ttl_at: slice | None = None

    @property
    def body(self) -> bytes:
        return self.wire[self.body_at]

    def __repr__(self) -> str:
        return f"<SignedMessage {self.id.hex()[:12]}… of {self.certificate.pool!r}, {len(self.wire)} bytes>"


class Draft(NamedTuple):
    """The parts of a message. `expires_at` is in Unix seconds; an encoding uses either that or `ttl_s`."""

    body: bytes
    certificate: Certificate
    key: KesSigningKey
    expires_at: int = 0
    ttl_s: int = 0

    @property
    def kes_period(self) -> int:
        return self.certificate.start_period + self.key.period


class Encoding(Protocol):
    """One encoding of messages."""

    name: str

    def read(self, wire: bytes) -> SignedMessage:
        """Return the message that `wire` holds; raise `Malformed` for any other bytes."""

    def write(self, draft: Draft) -> bytes:
        """Return the message as its signer sends it."""

    def right_id(self, message: SignedMessage) -> bytes | None:
        """Return the id that the message must have; None: any."""

    def notified(self, message: SignedMessage) -> bytes:
        """Return the message as consumers get it."""

    def read_notified(self, wire: bytes) -> SignedMessage:
        """Return the message that a consumer got; raise `Malformed` for any other bytes."""

    def relayed(self, notified: bytes, left_s: float) -> bytes | None:
        """Return the message as other nodes get it, from what consumers get. `left_s`: how long it still lives; None:
        too short a time to be given."""


class Dmq05:
    """`[id, [body, KES period, expiry], KES signature, certificate, cold key]`."""

    name = "dmq-0.5"

    def __init__(self, body: BodyBounds = DEPLOYED) -> None:
        self._body = body

    def read(self, wire: bytes) -> SignedMessage:
        front = _FRONT_05.match(wire)
        if front is not None:
            body = slice(front.end(), front.end() + int.from_bytes(front[2] or front[3], "big"))
            if (found := _by_offsets(wire, front[1], front.end(1), body, self._body)) is not None:
                return found
        return self._read(wire)

    def _read(self, wire: bytes) -> SignedMessage:
        """Read any spelling, item by item, and say what is wrong."""
        reader = Reader(wire)
        reader.array("the message", 5)
        own_id = wire[reader.octets("the id", ID_BYTES)]
        start = reader.at
        reader.array("the payload", 3)
        return _rest(reader, own_id, start, reader.octets("the body", *self._body))

    def write(self, draft: Draft) -> bytes:
        payload = encode([draft.body, draft.kes_period, draft.expires_at])
        return array_of(encode(digest(payload)), payload, *_proof(draft, payload))

    def right_id(self, message: SignedMessage) -> bytes | None:
        return digest(message.signed)

    def notified(self, message: SignedMessage) -> bytes:
        return message.wire

    def read_notified(self, wire: bytes) -> SignedMessage:
        return self.read(wire)

    def relayed(self, notified: bytes, left_s: float) -> bytes | None:
        return notified


class Dmq04:
    """`[[id, body, KES period, expiry], KES signature, certificate, cold key]`; the id is free, of up to 64 bytes."""

    name = "dmq-0.4"

    def __init__(self, body: BodyBounds = OLDER) -> None:
        self._body = body

    def read(self, wire: bytes) -> SignedMessage:
        reader = Reader(wire)
        reader.array("the message", 4)
        start = reader.at
        reader.array("the payload", 4)
        own_id = wire[reader.octets("the id", 0, FREE_ID_BYTES_MAX)]
        return _rest(reader, own_id, start, reader.octets("the body", *self._body))

    def write(self, draft: Draft) -> bytes:
        """Return the encoded message, whose id is mithril's of that time: Blake2b-512 of body, KES period and
        expiry."""
        numbers = draft.kes_period.to_bytes(8, "big") + draft.expires_at.to_bytes(4, "big")
        own_id = blake2b(draft.body + numbers, digest_size=64).digest()
        payload = encode([own_id, draft.body, draft.kes_period, draft.expires_at])
        return array_of(payload, *_proof(draft, payload))

    def right_id(self, message: SignedMessage) -> bytes | None:
        return None

    def notified(self, message: SignedMessage) -> bytes:
        return message.wire

    def read_notified(self, wire: bytes) -> SignedMessage:
        return self.read(wire)

    def relayed(self, notified: bytes, left_s: float) -> bytes | None:
        return notified


class Cip29ffe0e:
    """`[id, body, block number, ttl, KES signature, certificate]`; consumers get it without the ttl.

    The certificate is a byte string, `[[KES key, issue number, first period, signature], cold key]` (F1); the id is
    Blake2b-256 of the body (F2). The block number is carried, but ignored, as there is no chain here.
    """

    name = "cip-29ffe0e"

    def __init__(self, body: BodyBounds = SEEDS) -> None:
        self._body = body

    def read(self, wire: bytes) -> SignedMessage:
        return self._read(wire, 6)

    def _read(self, wire: bytes, length: int) -> SignedMessage:
        reader = Reader(wire)
        reader.array("the message", length)
        own_id = wire[reader.octets("the id", 0, FREE_ID_BYTES_MAX)]
        body = reader.octets("the body", *self._body)
        reader.uint("the block number", 32)
        start = reader.at
        ttl_s = reader.uint("the ttl", 16) if length == 6 else None
        ttl_at = slice(start, reader.at)
        signature = wire[reader.octets("the KES signature", SIGNATURE_KES_BYTES)]
        certificate = read_certificate(wire[reader.octets("the operational certificate", 1, CERTIFICATE_BYTES_MAX)])
        reader.finish("the message")
        return SignedMessage(wire, own_id, body, wire[body], signature, certificate, ttl_s=ttl_s, ttl_at=ttl_at)

    def write(self, draft: Draft, block_number: int = 0) -> bytes:
        parts = (digest(draft.body), draft.body, block_number, draft.ttl_s, draft.key.sign(draft.body))
        return array_of(*map(encode, parts), encode(draft.certificate.encoded()))

    def right_id(self, message: SignedMessage) -> bytes | None:
        return digest(message.body)

    def notified(self, message: SignedMessage) -> bytes:
        """Return the message for consumers: the received bytes before and after the ttl."""
        assert message.ttl_at is not None
        _, _, start = read_head(message.wire, 0)
        return b"\x85" + message.wire[start : message.ttl_at.start] + message.wire[message.ttl_at.stop :]

    def read_notified(self, wire: bytes) -> SignedMessage:
        return self._read(wire, 5)

    def relayed(self, notified: bytes, left_s: float) -> bytes | None:
        """Put in as the ttl what is left of it, and a second less: at each hop the way takes some time, so a message
        would live on among nodes that give it to each other again and again."""
        ttl_s = int(left_s) - 1
        if ttl_s < 1:
            return None
        reader = Reader(notified)
        reader.array("the message", 5)
        start = reader.at
        for _ in ("id", "body", "block number"):
            reader.skip()
        return b"\x86" + notified[start : reader.at] + encode(ttl_s) + notified[reader.at :]


def digest(data: bytes) -> bytes:
    """Return Blake2b-256."""
    return blake2b(data, digest_size=ID_BYTES).digest()


_FRONT_05 = re.compile(rb"\x85\x58\x20(.{32})\x83(?:\x58(.)|\x59(..))", re.DOTALL)
_UINT = rb"[\x00-\x17]|\x18.|\x19.."
_NUMBERS = re.compile(rb"(%(u)b|\x1a.{4}|\x1b.{8})(%(u)b|\x1a.{4})\x59\x01\xc0" % {b"u": _UINT}, re.DOTALL)
"""What stands between a body and the KES signature as everybody writes it; another spelling is read item by item."""
_CERTIFIED = re.compile(
    rb"\x84\x58\x20(.{32})(%(u)b|\x1a.{4}|\x1b.{8})(%(u)b|\x1a.{4}|\x1b.{8})\x58\x40(.{64})\x58\x20(.{32})"
    % {b"u": _UINT},
    re.DOTALL,
)
"""What stands behind that signature: the certificate and the cold key."""


def usual_end(data: bytes | bytearray, at: int) -> int:
    """Return where the message of the deployed encoding ends that begins at `at`, if all of it is there and spelled as
    everybody writes it; else -1. What it says is not judged."""
    front = _FRONT_05.match(data, at)
    if front is None:
        return -1
    numbers = _NUMBERS.match(data, front.end() + int.from_bytes(front[2] or front[3], "big"))
    certified = numbers and _CERTIFIED.match(data, numbers.end() + SIGNATURE_KES_BYTES)
    return certified.end() if certified else -1


_KNOWN_MAX = 1024
"""How many certificates are kept as read: a pool's comes again with each of its messages."""


@lru_cache(_KNOWN_MAX)
def _certificate(written: bytes) -> Certificate:
    """Return the certificate and cold key that end a message; raise `Malformed` if they are spelled otherwise."""
    found = _CERTIFIED.fullmatch(written)
    if found is None:
        raise Malformed("this is no certificate as everybody writes it")
    kes_key, issue_number, start, signature, cold_key = found.groups()
    return Certificate.of(kes_key, _uint(issue_number), _uint(start), signature, cold_key)


def forget_certificates() -> None:
    """Forget the certificates that are kept as read, for who measures what reading them costs."""
    _certificate.cache_clear()


def _uint(item: bytes) -> int:
    return item[0] if len(item) == 1 else int.from_bytes(item[1:], "big")


def _by_offsets(wire: bytes, own_id: bytes, start: int, body: slice, bounds: BodyBounds) -> SignedMessage | None:
    """Return the message of a deployed encoding whose payload begins at `start`; None if what stands behind its body is
    spelled otherwise, or the body has another length."""
    found = _NUMBERS.match(wire, body.stop)
    if found is None or not bounds.least <= body.stop - body.start <= bounds.most:
        return None
    at = found.end()
    end = at + SIGNATURE_KES_BYTES
    try:
        certificate = _certificate(wire[end:])
    except Malformed:
        return None
    period, expires_at = found.groups()
    signed = wire[start : found.end(2)]
    return SignedMessage(wire, own_id, body, signed, wire[at:end], certificate, _uint(period), _uint(expires_at))


def _rest(reader: Reader, own_id: bytes, start: int, body: slice) -> SignedMessage:
    """Read what stands behind the body, item by item."""
    reader.at = body.stop
    kes_period, expires_at = reader.uint("the KES period", 64), reader.uint("the expiry", 32)
    signed = reader.data[start : reader.at]
    signature = reader.data[reader.octets("the KES signature", SIGNATURE_KES_BYTES)]
    certificate = Certificate.of(*read_inner(reader), read_cold_key(reader))
    reader.finish("the message")
    return SignedMessage(reader.data, own_id, body, signed, signature, certificate, kes_period, expires_at)


def _proof(draft: Draft, payload: bytes) -> tuple[bytes, ...]:
    """Return signature, certificate and cold key, as encoded."""
    certificate = draft.certificate
    return encode(draft.key.sign(payload)), encode(certificate.inner), encode(bytes(certificate.cold_key))
