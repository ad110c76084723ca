"""The operational certificate: a pool's cold key vouches for the KES key that signs its messages (CIP-137).

The cold key signs 48 raw bytes, not CBOR: KES key, issue number and first KES period, each number in eight bytes.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from msgspec import Struct

from router.core.wire.codec import encode
from router.core.wire.crypto import SIGNATURE_BYTES, PublicKey, Signature, SigningKey, verify
from router.core.wire.text import bech32_encode

from ..cbor import Reader

POOL_ID_BYTES = 28
TEXTS_MAX = 4096
"""How many pools' texts are remembered: each costs as much as verifying a signature."""
NUMBER_BITS = 64
KES_KEY_BYTES = 32
SIGNED_BYTES = KES_KEY_BYTES + 2 * 8
"""The length of what the cold key signs, which begins with the KES key."""
_COLD_AT = SIGNED_BYTES + SIGNATURE_BYTES


class PoolId(bytes):
    """The id of a stake pool: Blake2b-224 of its cold key."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> PoolId:
        if len(raw) != POOL_ID_BYTES:
            raise ValueError(f"a pool id has {POOL_ID_BYTES} bytes, not {len(raw)}")
        return super().__new__(cls, raw)

    def __repr__(self) -> str:
        return f"PoolId({self.hex()[:12]}…)"

    @property
    def text(self) -> str:
        """Return the id as Cardano's tools print it, `pool1…`."""
        return _text_of(self)


@lru_cache(TEXTS_MAX)
def _text_of(pool: bytes) -> str:
    return bech32_encode("pool", pool)


def pool_text(digits: str) -> str:
    """Return the text of a pool whose id is given in hex, as JSON, the log and stake files have it."""
    return PoolId(bytes.fromhex(digits)).text


class Certificate(Struct, frozen=True, gc=False):
    """An operational certificate with the cold key that signed it, and the pool that both stand for.

    `packed` is all that is to be verified of it: what is signed, the signature, the cold key. Only the numbers and the
    pool are needed for each message."""

    packed: bytes
    issue_number: int
    start_period: int
    pool: PoolId

    @classmethod
    def of(cls, kes_key: bytes, issue_number: int, start_period: int, signature: bytes, cold_key: bytes) -> Certificate:
        """Return the certificate with these parts, the keys of 32 bytes, the signature of 64."""
        packed = signed_bytes(kes_key, issue_number, start_period) + signature + cold_key
        return cls(packed, issue_number, start_period, pool_of(cold_key))

    @property
    def kes_key(self) -> PublicKey:
        return PublicKey(self.packed[:KES_KEY_BYTES])

    @property
    def signature(self) -> Signature:
        return Signature(self.packed[SIGNED_BYTES:_COLD_AT])

    @property
    def cold_key(self) -> PublicKey:
        return PublicKey(self.packed[_COLD_AT:])

    @property
    def signed(self) -> bytes:
        """Return the bytes that the cold key signs."""
        return self.packed[:SIGNED_BYTES]

    def is_signed(self) -> bool:
        return is_signed(self.packed)

    def encoded(self) -> bytes:
        """Return `[[kes key, issue number, first period, signature], cold key]`, as in the file of cardano-cli."""
        return encode([self.inner, bytes(self.cold_key)])

    @property
    def inner(self) -> list[bytes | int]:
        """Return the certificate without its cold key, in the form of messages, where the key stands beside it."""
        return [bytes(self.kes_key), self.issue_number, self.start_period, bytes(self.signature)]


def is_signed(packed: bytes) -> bool:
    """Whether the certificate with these `packed` bytes is signed by its cold key."""
    return verify(packed[_COLD_AT:], packed[:SIGNED_BYTES], packed[SIGNED_BYTES:_COLD_AT])


def pool_of(cold_key: bytes) -> PoolId:
    return PoolId(blake2b(cold_key, digest_size=POOL_ID_BYTES).digest())


def signed_bytes(kes_key: bytes, issue_number: int, start_period: int) -> bytes:
    return kes_key + issue_number.to_bytes(8, "big") + start_period.to_bytes(8, "big")


def issue(cold: SigningKey, kes_key: PublicKey, issue_number: int, start_period: int) -> Certificate:
    """Return a certificate, signed with the cold key."""
    signature = cold.sign(signed_bytes(kes_key, issue_number, start_period))
    return Certificate.of(kes_key, issue_number, start_period, signature, cold.public)


def read_inner(reader: Reader) -> tuple[PublicKey, int, int, Signature]:
    """Read `[kes key, issue number, first period, signature]`."""
    reader.array("the operational certificate", 4)
    kes_key = PublicKey(reader.data[reader.octets("the KES key", 32)])
    issue_number = reader.uint("the issue number", NUMBER_BITS)
    start_period = reader.uint("the certificate's KES period", NUMBER_BITS)
    return kes_key, issue_number, start_period, Signature(reader.data[reader.octets("the cold signature", 64)])


def read_cold_key(reader: Reader) -> PublicKey:
    return PublicKey(reader.data[reader.octets("the cold key", 32)])


def read_certificate(data: bytes) -> Certificate:
    """Return the certificate of a file, `[[…], cold key]` (F1); raise `Malformed` for any other bytes."""
    reader = Reader(data)
    reader.array("the certificate", 2)
    found = Certificate.of(*read_inner(reader), read_cold_key(reader))
    reader.finish("the certificate")
    return found
