"""Statements of a router about its runs, signed by its own key, so that others may pass them on.

A node that is shown a claim of its own key for a later run than its present one knows, without trusting who shows it,
that another node runs with its key. So does one that is shown that an earlier run has stopped for that reason
(`router/core/control/node_copies.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from .codec import encode
from .crypto import PublicKey, Signature, SigningKey, verify

CLAIM_LABEL, STOP_LABEL = b"upsycle run claim 1", b"upsycle run stopped 1"
TAG_BYTES = 8
LIFE_MAX = 10**14 - 1
"""The greatest number of a life, a millisecond of the year 5138, which no clock shows. Numbers of events and messages
leap with it, a thousand for each (`router.core.log.life`), and stay within the 18 digits of a line of the log."""


class RunPlace(NamedTuple):
    """A run, and its place in the order of the runs of one key: the greatest is the latest.

    `life`: the number of its life (`router.core.log.life`); `start_ms`: the Unix millisecond of its start; `tag`:
    random bytes, which tell apart the runs of two copies that start by the same clock."""

    life: int
    start_ms: int
    tag: bytes


class RunClaim(NamedTuple):
    """The statement that a router runs."""

    run: RunPlace
    signature: Signature

    def is_by(self, key: PublicKey) -> bool:
        """Whether this key has signed it."""
        return verify(key, CLAIM_LABEL + encode([*self.run]), self.signature)


class RunStopped(NamedTuple):
    """The statement that a run has stopped because a later one of the same key was shown to it."""

    run: RunPlace
    later: RunPlace
    signature: Signature

    def is_by(self, key: PublicKey) -> bool:
        """Whether this key has signed it."""
        return verify(key, STOP_LABEL + encode([[*self.run], [*self.later]]), self.signature)


def claim_run(key: SigningKey, run: RunPlace) -> RunClaim:
    """Return the claim of a run of `key`."""
    return RunClaim(run, key.sign(CLAIM_LABEL + encode([*run])))


def stop_run(key: SigningKey, run: RunPlace, later: RunPlace) -> RunStopped:
    """Return the statement of `key` that its run `run` has stopped because of the run `later`."""
    return RunStopped(run, later, key.sign(STOP_LABEL + encode([[*run], [*later]])))
