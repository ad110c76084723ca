"""Records that are left at a point of rendezvous: routers that serve a group, sealed under a key derived of the group.

    record = nonce(24), XChaCha20-Poly1305 of plaintext(144), tag(16)          184 bytes, whatever it names
    plaintext = length(1), enc([minute, at]), zeros                           minute: when it was made; at: as in a HINT

Whoever knows the group's public key, as from a link, can read and write records; who only stores them can do neither,
and all records are equally long. The point is bound to the seal, so a record is of one group and one day.
"""

from __future__ import annotations

from enum import Enum

from blake3 import blake3
from msgspec import Struct
from nacl import bindings
from nacl.exceptions import CryptoError

from router.core.wire import shape
from router.core.wire.codec import Malformed, decode, encode
from router.core.wire.crypto import PublicKey
from router.core.wire.hint import Hint, encoded_hints, read_hints
from router.core.wire.lifetime import UINT32_MAX
from services.pubsub.core.rendezvous.points import DAY_S, OVERLAP_S, point_of

NONCE_BYTES = bindings.crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
PLAIN_BYTES = 144
RECORD_BYTES = NONCE_BYTES + PLAIN_BYTES + bindings.crypto_aead_xchacha20poly1305_ietf_ABYTES
AGE_MAX_S = DAY_S + 2 * OVERLAP_S

_KEY_CONTEXT = "upsycle rendezvous seal 1"
_ITEMS_MAX = 128


class Unread(Enum):
    """Why a record was not used."""

    FORGED = "a record that was not sealed with the key of the group for this point"
    BROKEN = "a record whose content has another form"
    OLD = "a record that was made more than a day ago"
    AHEAD = "a record that was made in the future"


class Opened(Struct, frozen=True):
    """A record's content: the routers that it names, and the Unix minute in which it was made."""

    hints: tuple[Hint, ...]
    minute: int


def seal_record(group: PublicKey, day: int, hints: tuple[Hint, ...], wall_s: float, nonce: bytes) -> bytes:
    """Return a record of these routers for a day. `nonce`: 24 random bytes, never used twice. Addresses that do not fit
    are left out, the last router's last one first; raise ValueError if no router fits."""
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"the nonce of a record has {NONCE_BYTES} bytes, not {len(nonce)}")
    said = _fitted(hints, int(wall_s) // 60)
    plain = bytes((len(said),)) + said + bytes(PLAIN_BYTES - 1 - len(said))
    sealed = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(
        plain, point_of(group, day), nonce, _sealing_key(group, day)
    )
    return nonce + sealed


def open_record(group: PublicKey, day: int, record: bytes, wall_s: float) -> Opened | Unread:
    """Return what a record of a day names, or why it is not used."""
    if len(record) != RECORD_BYTES:
        return Unread.FORGED
    nonce, sealed = record[:NONCE_BYTES], record[NONCE_BYTES:]
    try:
        plain = bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
            sealed, point_of(group, day), nonce, _sealing_key(group, day)
        )
    except CryptoError:
        return Unread.FORGED
    try:
        found = _read(plain)
    except Malformed:
        return Unread.BROKEN
    made_s = found.minute * 60
    if made_s > wall_s + OVERLAP_S:
        return Unread.AHEAD
    return found if made_s > wall_s - AGE_MAX_S else Unread.OLD


def _fitted(hints: tuple[Hint, ...], minute: int) -> bytes:
    while hints:
        said = encode([minute, encoded_hints(hints)])
        if len(said) < PLAIN_BYTES:
            return said
        last = hints[-1]
        rest = last.addresses[:-1]
        hints = (*hints[:-1], *([Hint(last.router, rest)] if rest else []))
    raise ValueError(f"no router fits into the {PLAIN_BYTES - 1} bytes of a record: name one with a shorter address")


def _read(plain: bytes) -> Opened:
    length, rest = plain[0], plain[1 + plain[0] :]
    if length >= PLAIN_BYTES or rest.strip(b"\0"):
        raise Malformed("a record whose length is wrong")
    minute, at = shape.array(decode(plain[1 : 1 + length], _ITEMS_MAX), "a record", 2, 2)
    return Opened(read_hints(at), shape.uint(minute, "minute", UINT32_MAX))


def _sealing_key(group: PublicKey, day: int) -> bytes:
    return blake3(group + day.to_bytes(4, "big"), derive_key_context=_KEY_CONTEXT).digest()
