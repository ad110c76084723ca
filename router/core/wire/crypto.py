"""Keys, signatures and ids as types (R-B1, R-B2). Every address is an Ed25519 public key (RFC 8032)."""

from __future__ import annotations

from functools import lru_cache

from blake3 import blake3
from nacl import bindings
from nacl.exceptions import BadSignatureError

KEY_BYTES = 32
SIGNATURE_BYTES = 64
ID_BYTES = 32
POINTS_REMEMBERED = 16_384
"""Number of keys that are known to be valid: as many as a node has groups, since all are named again each hour."""


class InvalidKey(ValueError):
    """Bytes are not a usable Ed25519 public key."""


class PublicKey(bytes):
    """The address of a router, a service, an app or a group: 32 bytes.

    `PublicKey(raw)` checks only the length, for bytes that a verified signature or a handshake has already
    vouched for; use `PublicKey.checked(raw)` for keys that come from people and files.
    """

    __slots__ = ()

    def __new__(cls, raw: bytes) -> PublicKey:
        if len(raw) != KEY_BYTES:
            raise InvalidKey(f"a public key has {KEY_BYTES} bytes, not {len(raw)}")
        return super().__new__(cls, raw)

    @classmethod
    def checked(cls, raw: bytes) -> PublicKey:
        """Return the key if it is a canonical point of large order (R-B2); else raise `InvalidKey`."""
        key = cls(raw)
        if not _is_point(bytes(key)):
            raise InvalidKey(f"{raw.hex()} is not a valid Ed25519 public key")
        return key

    def __repr__(self) -> str:
        return f"PublicKey({self.hex()[:12]}…)"


@lru_cache(maxsize=POINTS_REMEMBERED)
def _is_point(raw: bytes) -> bool:
    return bool(bindings.crypto_core_ed25519_is_valid_point(raw))


class Signature(bytes):
    """An Ed25519 signature: 64 bytes."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> Signature:
        if len(raw) != SIGNATURE_BYTES:
            raise ValueError(f"a signature has {SIGNATURE_BYTES} bytes, not {len(raw)}")
        return super().__new__(cls, raw)


class MessageId(bytes):
    """The id of a message: 32 bytes of BLAKE3 (specification, "Message ID"; R-A6)."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> MessageId:
        if len(raw) != ID_BYTES:
            raise ValueError(f"a message id has {ID_BYTES} bytes, not {len(raw)}")
        return super().__new__(cls, raw)

    def __repr__(self) -> str:
        return f"MessageId({self.hex()[:12]}…)"


class SigningKey:
    """An Ed25519 key pair made from a 32-byte seed. The seed never appears in a repr."""

    __slots__ = ("_secret", "public", "seed")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != KEY_BYTES:
            raise InvalidKey(f"a seed has {KEY_BYTES} bytes, not {len(seed)}")
        public, self._secret = bindings.crypto_sign_seed_keypair(seed)
        self.seed = bytes(seed)
        self.public = PublicKey(public)

    def sign(self, message: bytes) -> Signature:
        return Signature(bindings.crypto_sign(message, self._secret)[:SIGNATURE_BYTES])

    def __repr__(self) -> str:
        return f"SigningKey(of {self.public.hex()[:12]}…)"


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` over `message` is by `key`; always False for small-order and non-canonical keys."""
    if len(key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False  # libsodium does not check either length, and would take missing bytes from the message
    try:
        bindings.crypto_sign_open(signature + message, key)
    except (BadSignatureError, ValueError):
        return False
    return True


def digest(data: bytes | memoryview) -> bytes:
    """Return the unkeyed BLAKE3-256 digest."""
    return blake3(data).digest()


def hasher() -> blake3:
    """Return a hash that can be `reset`, which is faster than `digest` over many short pieces of data."""
    return blake3()
