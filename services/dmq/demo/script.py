"""The messages of the demo's signers, of pools made for it, and the expected fate of each."""

from __future__ import annotations

import os
from typing import NamedTuple

from msgspec import Struct

from router.core.wire.crypto import SigningKey
from services.dmq.core.messages.certificate import Certificate, issue
from services.dmq.core.messages.fault import Fault
from services.dmq.core.messages.kes import KesSigningKey
from services.dmq.core.messages.pool_keys import PoolKeys, stake_file
from services.dmq.core.messages.signed_message import Dmq05

CHOKES = b"no mithril signature: "
"""The beginning of a body that the first aggregator cannot read."""
TTL_S = 1500
SIGNERS = 16
_BODY_BYTES = 200


class ScriptLine(NamedTuple):
    """A message to be handed in by a signer, and the fault it is to be rejected for, if any."""

    signer: int
    pool: bytes
    wire: bytes
    fault: Fault | None = None


class Script(Struct, frozen=True):
    """All messages, in the order in which each signer hands in its own; and the stake of their pools.

    `twice`: two of one pool; `one_id`: two of two pools with one payload, and so with one id."""

    lines: tuple[ScriptLine, ...]
    stake: bytes
    choking: ScriptLine
    twice: tuple[ScriptLine, ScriptLine]
    one_id: tuple[ScriptLine, ScriptLine]


def written(messages: int, kes_period: int, wall_s: float) -> Script:
    """Return a script in which each signer has messages of `messages` pools, some of them faulty."""
    pools = [_pool(kes_period) for _ in range(SIGNERS * messages)]
    expires_at = int(wall_s) + TTL_S
    lines = [_line(at % SIGNERS, keys, b"signature %d " % at, kes_period, expires_at) for at, keys in enumerate(pools)]
    first, second, _, fourth, fifth = pools[:5]
    early = len(lines) // 4  # before the node is killed, if that is once
    choking = _line(1, second, CHOKES, kes_period, expires_at)
    twice = _line(0, first, b"again within a minute ", kes_period, expires_at)
    whose = lines[2]
    taken = _line(3, fourth, _body_of(whose.wire), kes_period, expires_at)
    wrong = _line(4, _with_wrong_certificate(fifth), b"wrong certificate ", kes_period, expires_at)
    special = [choking, twice, taken, wrong._replace(fault=Fault.BAD_CERTIFICATE)]
    stake = stake_file(*(keys.certificate.pool for keys in pools))
    return Script((*lines[:early], *special, *lines[early:]), stake, choking, (lines[0], twice), (whose, taken))


def _line(signer: int, keys: PoolKeys, body: bytes, kes_period: int, expires_at: int) -> ScriptLine:
    padded = body if len(body) >= _BODY_BYTES else body + os.urandom(_BODY_BYTES - len(body))
    wire = Dmq05().write(keys.draft(padded, kes_period, expires_at=expires_at))
    return ScriptLine(signer, keys.certificate.pool, wire)


def _body_of(wire: bytes) -> bytes:
    return Dmq05().read(wire).body


def _pool(start_period: int) -> PoolKeys:
    kes = KesSigningKey.from_seed(os.urandom(32))
    return PoolKeys(kes, issue(SigningKey(os.urandom(32)), kes.public, 0, start_period))


def _with_wrong_certificate(keys: PoolKeys) -> PoolKeys:
    """Return the keys with a certificate that another cold key has signed."""
    right = keys.certificate
    foreign = issue(SigningKey(os.urandom(32)), keys.kes.public, right.issue_number, right.start_period)
    wrong = Certificate.of(right.kes_key, right.issue_number, right.start_period, foreign.signature, right.cold_key)
    return PoolKeys(keys.kes, wrong)
