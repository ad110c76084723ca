"""What an app says to one address, sealed to the recipient's prekey (R-E7).

    BODY = enc([3, prekey id, ephemeral, nonce, ciphertext])

The plaintext is enc([seq, body]), with the body [1, bytes], or [17, [bytes, prekey]] if it brings the sender's prekey.
XChaCha20-Poly1305 binds it to both addresses, so what was sealed for one can be shown neither to another nor as
another's; who has sent it is shown by the signature of the unicast, which covers addresses and ciphertext. One
ephemeral key serves several messages to a prekey, each with a nonce of its own. A signature inside, or X25519 for each,
would cost more than all the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from nacl import bindings

from . import shape
from .application import NONCE_BYTES, UNICAST, BadPrekey, BadSeal, decrypt, encrypt, shared_key
from .codec import Malformed, decode, encode
from .crypto import KEY_BYTES, PublicKey
from .prekey import KEY_ID_BYTES, PREKEY_ITEMS_MAX, Prekey, exactly, prekey_fields, read_prekey

WITH_PREKEY = 17
"""The code of a unicast that brings its sender's prekey, so that the answer is sealed at once."""
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


class OpenedBody(NamedTuple):
    """What was sealed: the sender's number of it, its code and content, and the sender's prekey if it brings one, whose
    own signature is unchecked."""

    seq: int
    code: int
    content: bytes
    prekey: Prekey | None

    def __repr__(self) -> str:
        return f"<opened body {self.seq} of {len(self.content)} bytes>"


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
    source: PublicKey,
    destination: PublicKey,
    seq: int,
    content: bytes,
    *,
    nonce: bytes,
    prekey: Prekey | None = None,
) -> bytes:
    """Return the BODY of a unicast. `nonce`: 24 random bytes, never used twice with one key; `prekey`: the sender's
    own, if the recipient is to learn it."""
    body = [UNICAST, content] if prekey is None else [WITH_PREKEY, [content, prekey_fields(prekey)]]
    ciphertext = encrypt(encode([seq, body]), _BODY_LABEL + source + destination, nonce, key.secret)
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


def open_body(sealed: SealedBody, secret: bytes, source: PublicKey, destination: PublicKey) -> OpenedBody:
    """Return what was sealed by `source`, which the unicast's signature shows, to `destination`. Raise `Malformed` or
    `BadSeal`."""
    plain = decrypt(sealed.ciphertext, _BODY_LABEL + source + destination, sealed.nonce, secret)
    return read_plain(plain)


def read_plain(plain: bytes) -> OpenedBody:
    """Return what is inside a seal; raise `Malformed`."""
    seq, body = shape.array(decode(plain, 6 + PREKEY_ITEMS_MAX), "what is sealed", 2, 2)
    code, value = shape.array(body, "the sealed body", 2, 2)
    seq, prekey = shape.uint(seq, "seq"), None
    if code == WITH_PREKEY:
        value, fields = shape.array(value, "what comes with a prekey", 2, 2)
        prekey = read_prekey(fields)
    elif shape.uint(code, "the body's code") != UNICAST:
        raise Malformed(f"the body has the code {code}, and is no unicast's")
    return OpenedBody(seq, code, shape.octets(value, "the content", 0, 1 << 32), prekey)
