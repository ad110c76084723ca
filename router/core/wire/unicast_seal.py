"""What an app says to one address, sealed to the recipient's prekey (R-E7).

    BODY = enc([3, prekey id, ephemeral, nonce, ciphertext])

The plaintext is the specification's message, enc([header, body]), signed by the sender, with the code UNICAST or
WITH_PREKEY. XChaCha20-Poly1305 binds it to both addresses, so what was sealed for one can be shown neither to another
nor as another's. One ephemeral key serves several messages to a prekey, each with a nonce of its own: X25519 costs more
than all the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from nacl import bindings

from . import shape
from .application import (
    NONCE_BYTES,
    UNICAST,
    WITH_PREKEY,
    ApplicationMessage,
    BadMemberSignature,
    BadPrekey,
    BadSeal,
    decode_application,
    decrypt,
    encode_application,
    encrypt,
    shared_key,
)
from .codec import Malformed, decode, encode
from .crypto import KEY_BYTES, PublicKey, SigningKey
from .prekey import KEY_ID_BYTES, Prekey, exactly

BEGINS = b"\x85\x03\x48"
"""How a body that is sealed to an address begins: five values, the number of this form, a prekey's id."""

_FORM = 3
_TAG_BYTES = 16
_BODY_LABEL = b"upsycle unicast body 2"
_KEY_LABEL = b"upsycle unicast key 2"


@dataclass(frozen=True, slots=True)
class SealingKey:
    """An ephemeral key, and what it shares with the prekey of that id."""

    prekey_id: bytes
    ephemeral: bytes
    secret: bytes = field(repr=False)


class SealedBody(NamedTuple):
    """The parts of a sealed body."""

    prekey_id: bytes
    ephemeral: bytes
    nonce: bytes
    ciphertext: bytes


def sealing_key(prekey: Prekey, ephemeral_seed: bytes) -> SealingKey:
    """Return a key to seal with to this prekey, whose signature was checked. `ephemeral_seed`: 32 random bytes. Raise
    `BadPrekey` if it is a point of small order."""
    ephemeral = bindings.crypto_scalarmult_base(exactly(ephemeral_seed, KEY_BYTES, "an ephemeral seed"))
    try:
        secret = shared_key(ephemeral_seed, prekey.x25519, _KEY_LABEL, ephemeral + prekey.x25519)
    except BadSeal:
        raise BadPrekey("the prekey is a point of small order, to which nothing can be sealed") from None
    return SealingKey(prekey.id, ephemeral, secret)


def opening_key(seed: bytes, ephemeral: bytes) -> bytes:
    """Return the secret that the prekey of this seed shares with an ephemeral key. Raise `BadSeal`."""
    x25519 = bindings.crypto_scalarmult_base(exactly(seed, KEY_BYTES, "an X25519 seed"))
    return shared_key(seed, ephemeral, _KEY_LABEL, ephemeral + x25519)


def seal_body(
    key: SealingKey,
    source: SigningKey,
    destination: PublicKey,
    seq: int,
    content: bytes,
    *,
    nonce: bytes,
    prekey: Prekey | None = None,
) -> bytes:
    """Return the BODY of a unicast. `nonce`: 24 random bytes, never used twice with one key; `prekey`: the sender's
    own, if the recipient is to learn it."""
    code = UNICAST if prekey is None else WITH_PREKEY
    plain = encode_application(source, destination, seq, (), code, content, prekey)
    ciphertext = encrypt(plain, _BODY_LABEL + source.public + destination, nonce, key.secret)
    return encode([_FORM, key.prekey_id, key.ephemeral, nonce, ciphertext])


def read_body(body: bytes) -> SealedBody:
    """Return the parts of a sealed body; raise `Malformed` if it is none."""
    value = shape.array(decode(body, 6), "a body sealed to an address", 5, 5)
    if shape.uint(value[0], "the form of a sealed body") != _FORM:
        raise Malformed("not a body sealed to an address")
    return SealedBody(
        shape.octets(value[1], "prekey id", KEY_ID_BYTES),
        shape.octets(value[2], "ephemeral key", KEY_BYTES),
        shape.octets(value[3], "nonce", NONCE_BYTES),
        shape.octets(value[4], "ciphertext", _TAG_BYTES, 1 << 32),
    )


def open_body(sealed: SealedBody, secret: bytes, source: PublicKey, destination: PublicKey) -> ApplicationMessage:
    """Return what `source` has sealed to `destination`. Raise `Malformed`, `BadSeal` or `BadMemberSignature`."""
    bound_to = _BODY_LABEL + source + destination
    said = decode_application(decrypt(sealed.ciphertext, bound_to, sealed.nonce, secret), destination)
    if said.sender != source:
        raise BadMemberSignature(f"it comes from {source.hex()}, and {said.sender.hex()} has signed it")
    return said
