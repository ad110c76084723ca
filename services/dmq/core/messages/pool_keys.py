"""The keys of a stake pool that sign messages: made for tests, read from cardano-cli's files, put to use.

A node signs nothing and needs no keys; they are for trying a node out. The keys that `generate` makes are in the stake
file beside them, and on no chain.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from router.core.wire.crypto import SigningKey

from . import envelope
from .certificate import Certificate, PoolId, issue
from .kes import PERIODS, KesSigningKey
from .signed_message import Draft

COLD_SECRET, COLD_PUBLIC = "cold.skey", "cold.vkey"
KES_SECRET, KES_PUBLIC = "kes.skey", "kes.vkey"
CERTIFICATE, STAKE = "opcert.cert", "stake.json"
TEST_STAKE = 1_000_000_000_000
"""The lovelace of a generated pool, whose amount does not matter unless it is 0."""


class BadKeys(ValueError):
    """These keys cannot sign the message; the text says why and what to do."""


class PoolKeys(NamedTuple):
    """The signing keys of a pool: a KES key, in some period, and its certificate."""

    kes: KesSigningKey
    certificate: Certificate

    def __repr__(self) -> str:
        return f"<PoolKeys of {self.certificate.pool!r}, {self.kes!r}>"

    @property
    def belong_together(self) -> bool:
        return self.kes.public == self.certificate.kes_key

    def draft(self, body: bytes, kes_period: int, *, expires_at: int = 0, ttl_s: int = 0) -> Draft:
        """Return the parts of a message with this body, signed in that KES period of the chain.

        Raises `BadKeys` for a period that the key does not have (any more).
        """
        start = self.certificate.start_period
        first, end = start + self.kes.period, start + PERIODS
        if not first <= kes_period < end:
            remedy = "keep the earlier key for earlier periods, and issue a certificate for a new one for later periods"
            raise BadKeys(f"this KES key signs in the periods {first} to {end - 1}, not in {kes_period}; {remedy}")
        return Draft(body, self.certificate, self.kes.evolved_to(kes_period - start), expires_at, ttl_s)


def read_keys(kes_secret: bytes, certificate: bytes) -> PoolKeys:
    """Return the keys in two files of cardano-cli; raise `BadEnvelope`, or `BadKeys` if they do not belong together."""
    keys = PoolKeys(envelope.read_kes_key(kes_secret), envelope.read_certificate_file(certificate))
    if not keys.belong_together:
        raise BadKeys("the certificate is for another KES key; name the two that were made together")
    return keys


def generate(cold_seed: bytes, kes_seed: bytes, start_period: int, issue_number: int = 0) -> dict[str, bytes]:
    """Return the files of a test pool by name, made from two times 32 random bytes."""
    cold, kes = SigningKey(cold_seed), KesSigningKey.from_seed(kes_seed)
    certificate = issue(cold, kes.public, issue_number, start_period)
    return {
        COLD_SECRET: envelope.write_cold_key(cold),
        COLD_PUBLIC: envelope.write_cold_public(cold.public),
        KES_SECRET: envelope.write_kes_key(kes),
        KES_PUBLIC: envelope.write_kes_public(kes.public),
        CERTIFICATE: envelope.write_certificate(certificate),
        STAKE: stake_file(certificate.pool),
    }


def stake_file(*pools: PoolId) -> bytes:
    """Return a stake snapshot, in the form of cardano-cli, in which these pools have stake."""
    stake = dict.fromkeys(("stakeGo", "stakeMark", "stakeSet"), TEST_STAKE)
    total = {name: len(pools) * each for name, each in stake.items()}
    return json.dumps({"pools": {pool.hex(): stake for pool in pools}, "total": total}, indent=4).encode() + b"\n"
