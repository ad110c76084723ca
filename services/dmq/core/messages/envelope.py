"""The text envelopes of cardano-cli: a key or a certificate in a file, as JSON of `type`, `description` and `cborHex`.

The description is for people, and is ignored. Error texts never contain a file's content, since it may be a key.
"""

from __future__ import annotations

import json
from enum import Enum

from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import KEY_BYTES, PublicKey, SigningKey

from ..cbor import Reader
from .certificate import Certificate, read_certificate
from .kes import SECRET_BYTES, KesSigningKey, verify_kes

ENVELOPE_BYTES_MAX = 16 << 10


class BadEnvelope(ValueError):
    """A file does not hold the wanted content; the text says what is wrong and what to do."""


class Kind(Enum):
    """The kind of a file's content, by the names of cardano-cli."""

    description: str

    def __new__(cls, name: str, description: str) -> Kind:
        self = object.__new__(cls)
        self._value_, self.description = name, description
        return self

    COLD_SECRET = "StakePoolSigningKey_ed25519", "Stake Pool Operator Signing Key"
    COLD_PUBLIC = "StakePoolVerificationKey_ed25519", "Stake Pool Operator Verification Key"
    KES_SECRET = "KesSigningKey_ed25519_kes_2^6", "KES Signing Key"
    KES_PUBLIC = "KesVerificationKey_ed25519_kes_2^6", "KES Verification Key"
    CERTIFICATE = "NodeOperationalCertificate", ""


def write_cold_key(key: SigningKey) -> bytes:
    return _write(Kind.COLD_SECRET, encode(key.seed))


def write_cold_public(key: PublicKey) -> bytes:
    return _write(Kind.COLD_PUBLIC, encode(bytes(key)))


def write_kes_key(key: KesSigningKey) -> bytes:
    return _write(Kind.KES_SECRET, encode(key.secret))


def write_kes_public(key: PublicKey) -> bytes:
    return _write(Kind.KES_PUBLIC, encode(bytes(key)))


def write_certificate(certificate: Certificate) -> bytes:
    return _write(Kind.CERTIFICATE, certificate.encoded())


def read_cold_key(data: bytes) -> SigningKey:
    """Return a pool's cold key; raise `BadEnvelope`, as all functions here do."""
    return SigningKey(_octets(data, Kind.COLD_SECRET, KEY_BYTES))


def read_kes_key(data: bytes) -> KesSigningKey:
    """Return a KES key in the period in which it was written, if its parts belong together."""
    key = KesSigningKey.restored(_octets(data, Kind.KES_SECRET, SECRET_BYTES))
    if not verify_kes(key.public, key.period, b"", key.sign(b"")):
        raise _bad(Kind.KES_SECRET, "its parts do not belong together")
    return key


def read_certificate_file(data: bytes) -> Certificate:
    """Return an operational certificate with a valid signature of its cold key."""
    try:
        found = read_certificate(_content(data, Kind.CERTIFICATE))
    except Malformed as error:
        raise _bad(Kind.CERTIFICATE, str(error)) from None
    if not found.is_signed():
        raise _bad(Kind.CERTIFICATE, "its cold key has not signed it")
    return found


def _write(kind: Kind, content: bytes) -> bytes:
    fields = {"type": kind.value, "description": kind.description, "cborHex": content.hex()}
    return json.dumps(fields, indent=4).encode() + b"\n"


def _octets(data: bytes, kind: Kind, size: int) -> bytes:
    reader = Reader(_content(data, kind))
    try:
        found = reader.data[reader.octets("its content", size)]
        reader.finish("its content")
    except Malformed as error:
        raise _bad(kind, str(error)) from None
    return found


def _content(data: bytes, kind: Kind) -> bytes:
    """Return the CBOR of an envelope of this kind."""
    if len(data) > ENVELOPE_BYTES_MAX:
        raise _bad(kind, f"it is longer than {ENVELOPE_BYTES_MAX} bytes")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise _bad(kind, "it is not JSON") from None
    if not isinstance(fields, dict) or not all(isinstance(fields.get(key), str) for key in ("type", "cborHex")):
        raise _bad(kind, "it lacks type or cborHex")
    if fields["type"] != kind.value:
        raise _bad(kind, f"it is of type {fields['type'][:60]!r}")
    try:
        return bytes.fromhex(fields["cborHex"])
    except ValueError:
        raise _bad(kind, "cborHex is not hexadecimal") from None


def _bad(kind: Kind, cause: str) -> BadEnvelope:
    return BadEnvelope(f"this is no {kind.value} ({cause}); name the file as cardano-cli wrote it")
