"""Signature checks in batches, for a process of their own: they cost most, and would hold up the node's loop.

    Compute("services.dmq.signature_job:verify_batch", encode_batch(checks), tag)   in the rules
    faults(result)                                                                  when `Computed` is heard

The process remembers certificates and KES paths from batch to batch, as long as it lives. What it has found right the
node remembers, too, and tells it which certificates it has verified itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .core.messages.fault import Fault
from .core.messages.signatures import SignatureCheck, SignatureChecker

_FAULTS = (None, Fault.BAD_CERTIFICATE, Fault.BAD_SIGNATURE)
_CHECKER = SignatureChecker()
_BATCH = msgspec.msgpack.Decoder(list[SignatureCheck])


def encode_batch(checks: Sequence[SignatureCheck]) -> bytes:
    """Return the argument of `verify_batch`."""
    return msgspec.msgpack.encode(checks)


def verify_batch(argument: bytes) -> bytes:
    """Return a byte for each check, in order: which signature is wrong, or 0."""
    return bytes(map(_FAULTS.index, _CHECKER.faults(_BATCH.decode(argument))))


def faults(result: bytes) -> list[Fault | None]:
    """Return the findings of `verify_batch`: a fault or None for each check."""
    return [_FAULTS[one] for one in result]
