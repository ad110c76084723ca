"""The vectors of the DMQ node, and messages of every encoding that pools with fixed keys have signed."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

from router.core.wire.crypto import PublicKey, Signature, SigningKey
from services.dmq.core.messages.authentication import Authentication, Moment, Topic
from services.dmq.core.messages.certificate import Certificate, PoolId, issue
from services.dmq.core.messages.kes import KesSigningKey
from services.dmq.core.messages.signed_message import Draft, Encoding
from services.dmq.core.stake.distribution import StakeSet

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "dmq.json").read_text())
BETWEEN_NODES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "dmq_between_nodes.json").read_text()
)
SIGNED = VECTORS["signed"]
EXPIRES_AT: int = SIGNED["expires_at"]
NOW = Moment(EXPIRES_AT - 900.0, 1000.0)
"""A time at which the vectors' messages are valid."""
START_PERIOD = 1430
BODY = bytes(range(256)) * 2


class Pool:
    """A stake pool with a cold key, a KES key and a certificate, all from a number."""

    def __init__(self, number: int, *, issue_number: int = 0, start_period: int = START_PERIOD) -> None:
        self.cold = SigningKey(_seed(b"cold", number))
        self.kes = KesSigningKey.from_seed(_seed(b"kes", number))
        self.certificate: Certificate = issue(self.cold, self.kes.public, issue_number, start_period)
        self.id: PoolId = self.certificate.pool

    def draft(
        self, body: bytes = BODY, *, expires_at: int = EXPIRES_AT, ttl_s: int = 1800, evolution: int = 0
    ) -> Draft:
        return Draft(body, self.certificate, self.kes.evolved_to(evolution), expires_at, ttl_s)


def _seed(label: bytes, number: int) -> bytes:
    return blake2b(label + bytes((number,)), digest_size=32).digest()


POOLS = tuple(Pool(number) for number in range(3))
STAKE = StakeSet({pool.id: 1_000_000 for pool in POOLS}, NOW.wall_s)


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


def altered(certificate: Certificate, **parts: Any) -> Certificate:
    """Return the certificate with these parts in place of its own."""
    names = ("kes_key", "issue_number", "start_period", "signature", "cold_key")
    return Certificate.of(**{name: getattr(certificate, name) for name in names} | parts)


def certificate_of(vector: dict[str, Any]) -> Certificate:
    """Return the certificate that a vector describes by its parts."""
    key, number, period, signature = vector["certificate"]
    cold_key = PublicKey(raw(vector["cold_key"]))
    return Certificate.of(PublicKey(raw(key)), number, period, Signature(raw(signature)), cold_key)


def authentication(encoding: Encoding, topic: Topic | None = None) -> Authentication:
    """Return an authentication that knows the pools of the vectors and of `POOLS`."""
    vectors = {PoolId(raw(one)): 1 for one in SIGNED["pools"].values()}
    return Authentication(topic or Topic(), encoding, StakeSet({**STAKE.pools, **vectors}, NOW.wall_s))
