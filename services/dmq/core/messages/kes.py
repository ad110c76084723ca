"""Sum6 KES: a key that signs in 64 periods and forgets the past as it evolves (sum composition of Ed25519).

A key of depth d has two halves of depth d - 1; its public key is Blake2b-256 of theirs, left and right. A signature
consists of that of the half in use and the two public keys, so for depth 6: 64 bytes of Ed25519 and six pairs, the
lowest level first. A secret key consists of that of the half in use, the seed of the right half (zeros once it is
used), and the pair.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from router.core.wire.crypto import KEY_BYTES, SIGNATURE_BYTES, PublicKey, SigningKey, verify

DEPTH = 6
PERIODS = 1 << DEPTH
PAIR_BYTES = 2 * KEY_BYTES
SIGNATURE_KES_BYTES = SIGNATURE_BYTES + DEPTH * PAIR_BYTES
SECRET_BYTES = KEY_BYTES + DEPTH * (KEY_BYTES + PAIR_BYTES)
_USED = bytes(KEY_BYTES)
_FROM_THE_ROOT = [(level, level * PAIR_BYTES) for level in range(DEPTH - 1, -1, -1)]
"""The levels of a path, and where the pair of each lies."""


class KesPath(Struct, frozen=True, gc=False):
    """The path from a KES key to the Ed25519 key of one period; many messages share it."""

    root: bytes
    period: int
    pairs: bytes


class KesKeyUsedUp(ValueError):
    """A KES key cannot evolve beyond its last period."""


def verify_kes(root: bytes, period: int, message: bytes, signature: bytes) -> bool:
    """Whether `signature` over `message` is that of the key `root` in `period`, counted from its first."""
    leaf = leaf_of(path_of(root, period, signature))
    return leaf is not None and verify(leaf, message, signature[:SIGNATURE_BYTES])


def path_of(root: bytes, period: int, signature: bytes) -> KesPath:
    return KesPath(root, period, signature[SIGNATURE_BYTES:])


def leaf_of(path: KesPath) -> bytes | None:
    """Return the Ed25519 key of the period, if the pairs lead to it from the root; else None."""
    key, period, pairs = path.root, path.period, path.pairs
    if not 0 <= period < PERIODS or len(pairs) != DEPTH * PAIR_BYTES:
        return None
    for level, at in _FROM_THE_ROOT:
        pair = pairs[at : at + PAIR_BYTES]
        if blake2b(pair, digest_size=KEY_BYTES).digest() != key:
            return None
        key = pair[KEY_BYTES:] if period >> level & 1 else pair[:KEY_BYTES]
    return key


class KesSigningKey:
    """A KES secret key in one of its periods. The secret never appears in a repr."""

    __slots__ = ("period", "secret")

    def __init__(self, secret: bytes, period: int) -> None:
        """Load a key of 608 bytes, `secret`, which is in that period."""
        if len(secret) != SECRET_BYTES or not 0 <= period < PERIODS:
            raise ValueError(f"a KES key has {SECRET_BYTES} bytes and a period up to {PERIODS - 1}")
        self.secret = bytes(secret)
        self.period = period

    @classmethod
    def from_seed(cls, seed: bytes) -> KesSigningKey:
        """Return the key of 32 random bytes, in its first period."""
        return cls(_secret(SigningKey(seed).seed, DEPTH), 0)

    @classmethod
    def restored(cls, secret: bytes) -> KesSigningKey:
        """Return the key that was kept, in its period: a right half's seed is zeros if the right half is in use."""
        used = (level for level, at in enumerate(_LEVELS) if secret[at : at + KEY_BYTES] == _USED)
        return cls(secret, sum(1 << level for level in used))

    def __repr__(self) -> str:
        return f"KesSigningKey(of {self.public.hex()[:12]}…, period {self.period})"

    @property
    def public(self) -> PublicKey:
        return PublicKey(_digest(self.secret[-PAIR_BYTES:]))

    def sign(self, message: bytes) -> bytes:
        """Return the signature of this period, 448 bytes."""
        pairs = (self.secret[at + KEY_BYTES : at + KEY_BYTES + PAIR_BYTES] for at in _LEVELS)
        return SigningKey(self.secret[:KEY_BYTES]).sign(message) + b"".join(pairs)

    def evolved(self) -> KesSigningKey:
        """Return the key of the next period, from which none of the earlier ones can be derived."""
        if self.period == PERIODS - 1:
            raise KesKeyUsedUp(f"a KES key has {PERIODS} periods, and this one is in its last: make a new one")
        level = (self.period + 1 & -(self.period + 1)).bit_length() - 1
        at = _LEVELS[level]
        half = _secret(self.secret[at : at + KEY_BYTES], level)
        return KesSigningKey(half + _USED + self.secret[at + KEY_BYTES :], self.period + 1)

    def evolved_to(self, period: int) -> KesSigningKey:
        """Return the key of that period, the present one or a later."""
        if period < self.period:
            raise ValueError(f"the KES key is in period {self.period}: what signed in period {period} is gone")
        key = self
        while key.period < period:
            key = key.evolved()
        return key


_LEVELS = [KEY_BYTES + level * (KEY_BYTES + PAIR_BYTES) for level in range(DEPTH)]
"""The places of the right seed and the pair of each level in a secret key."""


def _secret(seed: bytes, depth: int) -> bytes:
    """Return the secret key of a half in its first period."""
    if not depth:
        return seed
    left, right = _halves(seed)
    return _secret(left, depth - 1) + right + _public(left, depth - 1) + _public(right, depth - 1)


def _public(seed: bytes, depth: int) -> bytes:
    if not depth:
        return SigningKey(seed).public
    left, right = _halves(seed)
    return _digest(_public(left, depth - 1) + _public(right, depth - 1))


def _halves(seed: bytes) -> tuple[bytes, bytes]:
    return _digest(b"\x01" + seed), _digest(b"\x02" + seed)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=KEY_BYTES).digest()
