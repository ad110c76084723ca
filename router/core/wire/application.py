"""Application messages: signed by a member of a group, sealed, and carried in BODY (R-E1 … R-E7).

    group      BODY = enc([1, key id, nonce, ciphertext])       under the group's content key
    by hand    BODY = enc([2, prekey id, ephemeral, ciphertext])       to a prekey that the recipient signed

What an app sends to one address is sealed as `unicast_seal.py` has it. The plaintext is the specification's message,
enc([header, body]); header keys in order: to seq sig deps from.
Ciphertexts are XChaCha20-Poly1305. The unencrypted parts name no member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from nacl import bindings
from nacl.exceptions import CryptoError

from . import shape
from .codec import DEPTH_MAX, Malformed, decode, encode
from .crypto import KEY_BYTES, MessageId, PublicKey, Signature, SigningKey, digest, verify
from .prekey import KEY_ID_BYTES, Prekey, exactly

ACK, UNICAST, MULTICAST = 0, 1, 2
MEMBER_ADD, MEMBER_REMOVE = 11, 12
OPAQUE_CODES = (10, MEMBER_ADD, MEMBER_REMOVE, 13, 14, 15)  # the key agreement's (R-E6); carried, not read
DEPS_MAX = 256
OPAQUE_ITEMS_MAX = 4096
NONCE_BYTES = 24

_TAG_BYTES = 16
_SEALED_ITEMS_MAX = 5
_ITEMS_MAX = 15 + DEPS_MAX + OPAQUE_ITEMS_MAX
_FOR_GROUP, _FOR_ONE = 1, 2
_HEADER_KEYS = ("to", "seq", "sig", "deps", "from")
_SAID_LABEL = b"upsycle said 1"
_KEY_ID_LABEL = b"upsycle content key id 1"
_GROUP_LABEL = b"upsycle group body 1"
_UNICAST_LABEL = b"upsycle unicast body 1"
_UNICAST_KEY_LABEL = b"upsycle unicast key 1"


class SealError(ValueError):
    """A sealed body is well formed, but cannot be opened or trusted."""


class UnknownContentKey(SealError):
    """A body is sealed under a key that we do not have."""


class BadSeal(SealError):
    """A ciphertext was changed, or is sealed for somebody else."""


class BadMemberSignature(SealError):
    """An opened message is not signed, for this group, by the member that it names."""


class BadPrekey(SealError):
    """A prekey is not signed by its owner, or cannot be sealed to."""


class ApplicationMessage(Struct, frozen=True):
    """A message from `sender` to a group, or to one recipient, whose address is then in `group`.

    `content` is the bytes of a UNICAST or MULTICAST body, empty for an ACK, the CBOR of any other body.
    `deps` are router message ids of the same group (R-E2); `seq` counts from 0 per sender and group (R-E3).
    `signature` is the member's own: nobody else can repeat the message under a different signature.
    """

    sender: PublicKey
    group: PublicKey
    seq: int
    deps: tuple[MessageId, ...]
    code: int
    content: bytes
    signature: Signature

    @property
    def said(self) -> MessageId:
        """Return an id of this content by this member, the same for every copy whoever seals or sends it."""
        return MessageId(digest(_SAID_LABEL + self.sender + self.signature))


def seal(
    member: SigningKey,
    group: PublicKey,
    seq: int,
    deps: Sequence[MessageId],
    content: bytes,
    *,
    content_key: bytes,
    nonce: bytes,
    code: int = MULTICAST,
) -> bytes:
    """Return the BODY of a multicast. `nonce`: 24 random bytes, never used twice with one content key."""
    plain = encode_application(member, group, seq, deps, code, content)
    ciphertext = encrypt(plain, _GROUP_LABEL + group, nonce, content_key)
    return encode([_FOR_GROUP, content_key_id(content_key), nonce, ciphertext])


def unseal(body: bytes, group: PublicKey, content_keys: Mapping[bytes, bytes]) -> ApplicationMessage:
    """Return the message in the BODY of a multicast to `group`; `content_keys` maps `content_key_id` to key.

    Raises `Malformed`, `UnknownContentKey`, `BadSeal` or `BadMemberSignature` if there is no trustworthy message.
    """
    key_id, nonce, ciphertext = _parts(body, _FOR_GROUP, NONCE_BYTES)
    content_key = content_keys.get(key_id)
    if content_key is None:
        text = f"sealed under content key {key_id.hex()}, which is none of the {len(content_keys)} known"
        raise UnknownContentKey(f"{text}; add the group's newer link")
    plain = decrypt(ciphertext, _GROUP_LABEL + group, nonce, content_key)
    return decode_application(plain, group)


def content_key_id(content_key: bytes) -> bytes:
    """Return the 8 bytes by which a sealed body names its key; they reveal nothing about it."""
    return digest(_KEY_ID_LABEL + content_key)[:KEY_ID_BYTES]


def seal_to(
    prekey: Prekey,
    member: SigningKey,
    seq: int,
    deps: Sequence[MessageId],
    content: bytes,
    *,
    ephemeral_seed: bytes,
    code: int = UNICAST,
) -> bytes:
    """Return the BODY of a unicast to the prekey's owner. `ephemeral_seed`: 32 random bytes, used once."""
    if not prekey.verify():
        raise BadPrekey(f"the prekey is not signed by {prekey.owner.hex()}; ask for it again")
    plain = encode_application(member, prekey.owner, seq, deps, code, content)
    ephemeral = bindings.crypto_scalarmult_base(exactly(ephemeral_seed, KEY_BYTES, "an ephemeral seed"))
    try:
        key = shared_key(ephemeral_seed, prekey.x25519, _UNICAST_KEY_LABEL, ephemeral + prekey.x25519)
    except BadSeal:
        raise BadPrekey("the prekey is a point of small order, to which nothing can be sealed") from None
    ciphertext = encrypt(plain, _UNICAST_LABEL + prekey.owner, bytes(NONCE_BYTES), key)
    return encode([_FOR_ONE, prekey.id, ephemeral, ciphertext])


def unseal_unicast(body: bytes, recipient: PublicKey, prekey_seeds: Mapping[bytes, bytes]) -> ApplicationMessage:
    """Return the message in the BODY of a unicast to `recipient`; seeds by `Prekey.id`. Raises like `unseal`."""
    key_id, ephemeral, ciphertext = _parts(body, _FOR_ONE, KEY_BYTES)
    seed = prekey_seeds.get(key_id)
    if seed is None:
        raise UnknownContentKey(f"sealed to the prekey {key_id.hex()}, which is not ours, or no longer")
    x25519 = bindings.crypto_scalarmult_base(exactly(seed, KEY_BYTES, "an X25519 seed"))
    key = shared_key(seed, ephemeral, _UNICAST_KEY_LABEL, ephemeral + x25519)
    plain = decrypt(ciphertext, _UNICAST_LABEL + recipient, bytes(NONCE_BYTES), key)
    return decode_application(plain, recipient)


def encode_application(
    member: SigningKey, group: PublicKey, seq: int, deps: Sequence[MessageId], code: int, content: bytes
) -> bytes:
    """Return enc([header, body]), signed by the member (R-E1); raise ValueError for a message no member may send."""
    if code == ACK and (len(deps) != 1 or content):
        raise ValueError(f"an ACK has no content and one dependency, not {len(deps)} (R-E4)")
    if len(deps) > DEPS_MAX:
        raise ValueError(f"{len(deps)} dependencies; at most {DEPS_MAX} are allowed")
    shape.uint(seq, "seq")
    header: dict[str, Any] = {"to": group, "seq": seq, "deps": list(deps), "from": member.public}
    body = [code, _body_value(code, content)]
    signature = member.sign(encode([header, body]))
    return encode([{**header, "sig": signature}, body])


def decode_application(plain: bytes, group: PublicKey) -> ApplicationMessage:
    """Return the message if it is to `group` and signed by its member; else raise `Malformed` or `SealError`."""
    header, body = shape.array(decode(plain, _ITEMS_MAX), "an application message", 2, 2)
    found = shape.fields(header, "the application header", _HEADER_KEYS)
    deps = tuple(shape.message_id(one, "deps") for one in shape.array(found["deps"], "deps", 0, DEPS_MAX))
    sender = shape.checked_key(found["from"], "from")
    signature = shape.signature(found["sig"], "sig")
    code, value = shape.array(body, "the application body", 2, 2)
    content = _content(shape.uint(code, "the body's code"), value, deps)
    to = shape.public_key(found["to"], "to")
    if to != group:
        raise BadMemberSignature(f"the member signed this for {to.hex()}, not for {group.hex()}")
    header.pop("sig")
    if not verify(sender, encode([header, body]), signature):
        raise BadMemberSignature(f"the signature is not by the member it names, {sender.hex()}")
    return ApplicationMessage(sender, to, shape.uint(found["seq"], "seq"), deps, code, content, signature)


def _body_value(code: int, content: bytes) -> Any:
    if code == ACK:
        return {}
    if code in (UNICAST, MULTICAST):
        return bytes(content)
    if code in OPAQUE_CODES:
        return decode(content, OPAQUE_ITEMS_MAX, depth_max=DEPTH_MAX - 2)
    raise ValueError(f"application messages have no code {code}")


def _content(code: int, value: Any, deps: tuple[MessageId, ...]) -> bytes:
    if code == ACK:
        shape.fields(value, "ACK", ())
        if len(deps) != 1:
            raise Malformed(f"an ACK acknowledges exactly one message, not {len(deps)} (R-E4)")
        return b""
    if code in (UNICAST, MULTICAST):
        return shape.octets(value, "the content", 0, 1 << 32)
    if code in OPAQUE_CODES:
        return encode(value)
    raise Malformed(f"application message code {code} is unknown")


def _parts(body: bytes, kind: int, middle_bytes: int) -> tuple[bytes, bytes, bytes]:
    value = shape.array(decode(body, _SEALED_ITEMS_MAX), "a sealed body", 4, 4)
    if shape.uint(value[0], "the type of a sealed body") != kind:
        wanted = "a group" if kind == _FOR_GROUP else "one recipient"
        raise Malformed(f"not a body sealed for {wanted}")
    return (
        shape.octets(value[1], "key id", KEY_ID_BYTES),
        shape.octets(value[2], "nonce" if kind == _FOR_GROUP else "ephemeral key", middle_bytes),
        shape.octets(value[3], "ciphertext", _TAG_BYTES, 1 << 32),
    )


def encrypt(plain: bytes, bound_to: bytes, nonce: bytes, key: bytes) -> bytes:
    """Return the ciphertext with its tag; it opens only under the same nonce and `bound_to`."""
    exactly(key, KEY_BYTES, "a content key")
    exactly(nonce, NONCE_BYTES, "a nonce")
    return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plain, bound_to, nonce, key)


def decrypt(ciphertext: bytes, bound_to: bytes, nonce: bytes, key: bytes) -> bytes:
    """Return the plaintext; raise `BadSeal` if it was sealed otherwise."""
    exactly(key, KEY_BYTES, "a content key")
    try:
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(ciphertext, bound_to, nonce, key)
    except CryptoError:
        raise BadSeal("the seal does not fit: the body was changed, or sealed for somebody else") from None


def shared_key(secret: bytes, public: bytes, label: bytes, both: bytes) -> bytes:
    """Return the key that only the holders of either secret can compute. `both`: the ephemeral key and the prekey.

    Raises `BadSeal` if the public one is of small order."""
    try:
        shared = bindings.crypto_scalarmult(secret, public)
    except CryptoError:
        raise BadSeal("the ephemeral key is a point of small order") from None
    return digest(label + shared + both)
