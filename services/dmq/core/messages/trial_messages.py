"""Messages for checks of a node: valid ones of a pool, and those with one fault."""

from __future__ import annotations

from msgspec import Struct

from router.core.wire.codec import encode, head

from ..cbor import OCTETS, UINT, array_of, indefinite
from ..protocols.revision import Revision
from .pool_keys import PoolKeys
from .signed_message import Draft, digest

BODY = bytes(range(256)) + bytes(150)
"""A body within the bounds of every revision."""


class Parts(Struct, frozen=True):
    """The parts of a message of `dmq-0.5`, each as encoded."""

    id: bytes
    body: bytes
    kes_period: bytes
    expires_at: bytes
    kes_signature: bytes
    certificate: bytes
    cold_key: bytes

    @property
    def payload(self) -> bytes:
        return array_of(self.body, self.kes_period, self.expires_at)

    def message(self, payload: bytes = b"") -> bytes:
        return array_of(self.id, payload or self.payload, self.kes_signature, self.certificate, self.cold_key)

    def indefinite_message(self) -> bytes:
        return indefinite(self.id, self.payload, self.kes_signature, self.certificate, self.cold_key)

    def indefinite_payload(self) -> bytes:
        return self.message(indefinite(self.body, self.kes_period, self.expires_at))


class Signer(Struct, frozen=True):
    """A pool's keys, the KES period to sign in, and the time by the clock, in Unix seconds."""

    keys: PoolKeys
    kes_period: int
    wall_s: int

    def draft(self, body: bytes = BODY, *, left_s: int = 600) -> Draft:
        expires_at = self.wall_s + left_s
        return self.keys.draft(body, self.kes_period, expires_at=expires_at, ttl_s=max(left_s, 0))

    def message(self, revision: Revision, body: bytes = BODY, *, left_s: int = 600) -> bytes:
        """Return a valid message that lives for `left_s` from now."""
        return revision.encoding.write(self.draft(body, left_s=left_s))

    def parts(self, body: bytes = BODY, *, left_s: int = 600, is_long: bool = False) -> Parts:
        """Return a message of `dmq-0.5` in parts; `is_long`: its KES period is written in four bytes."""
        draft = self.draft(body, left_s=left_s)
        period = b"\x1a" + draft.kes_period.to_bytes(4, "big") if is_long else encode(draft.kes_period)
        payload = array_of(encode(body), period, encode(draft.expires_at))
        certificate = encode(draft.certificate.inner)
        signature, cold_key = encode(draft.key.sign(payload)), encode(bytes(draft.certificate.cold_key))
        return Parts(
            encode(digest(payload)), encode(body), period, encode(draft.expires_at), signature, certificate, cold_key
        )


def octets(size: int) -> bytes:
    """Return a byte string of zeros, as encoded."""
    return head(size, OCTETS) + bytes(size)


def long_number(number: int) -> bytes:
    """Return a number encoded in eight bytes, whatever it needs."""
    return bytes((UINT << 5 | 27,)) + number.to_bytes(8, "big")
