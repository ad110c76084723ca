"""The faults of messages, under the names that dmq-node gives them."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from router.core.wire.reasons import Reason
from services.dmq import reasons


class Fault(Enum):
    """A cause for rejecting a message, by the reference's name; those of the seeds and our own are marked."""

    reason: Reason

    def __new__(cls, name: str, reason: Reason) -> Fault:
        self = object.__new__(cls)
        self._value_, self.reason = name, reason
        return self

    DUPLICATE = "SigDuplicate", reasons.DUPLICATE
    EXPIRED = "SigExpired", reasons.EXPIRED
    EXPIRY_TOO_FAR = "SigExpiresAtTooFarInTheFuture", reasons.EXPIRY_TOO_FAR
    TOO_FREQUENT = "SigTooFrequent", reasons.TOO_FREQUENT
    WRONG_ID = "InvalidSigId", reasons.WRONG_ID
    AFTER_END = "KESAfterEndOCERT", reasons.CERTIFICATE_ENDED
    BEFORE_START = "KESBeforeStartOCERT", reasons.CERTIFICATE_NOT_BEGUN
    UNKNOWN_POOL = "UnrecognizedPool", reasons.UNKNOWN_POOL
    NOT_INITIALIZED = "NotInitialized", reasons.STAKE_MISSING
    NOT_ELIGIBLE = "PoolNotEligible", reasons.NO_STAKE
    OLD_CERTIFICATE = "InvalidOCertCounter", reasons.OLD_CERTIFICATE
    BAD_CERTIFICATE = "InvalidSignatureOCERT", reasons.BAD_CERTIFICATE
    BAD_SIGNATURE = "InvalidKESSignature", reasons.BAD_SIGNATURE
    TTL_TOO_LARGE = "ttlTooLarge", reasons.TTL_TOO_LARGE  # the seeds'
    MEMPOOL_FULL = "MempoolFull", reasons.MEMPOOL_FULL  # ours
    POOL_FULL = "PoolFull", reasons.POOL_FULL  # ours
    DISK_FULL = "DiskFull", reasons.DISK_FULL  # ours
    PACE_FULL = "PoolPaceFull", reasons.PACE_FULL  # ours


class Rejected(Struct, frozen=True):
    """The verdict on a message that is not taken; `detail` holds the decisive values, for people."""

    fault: Fault
    detail: str = ""

    @property
    def text(self) -> str:
        """Return the reference's name, the sentence, and the values."""
        return f"{self.fault.value}: {self._with_values(self.fault.reason.clause)}."

    @property
    def sentence(self) -> str:
        """Return the sentence with the values, for people."""
        return f"{self._with_values(self.fault.reason.sentence.rstrip('.'))}."

    def _with_values(self, clause: str) -> str:
        """Return the clause with the values behind the fault, and before its remedy if it names one."""
        what, colon, remedy = clause.partition(": ")
        return f"{what} ({self.detail}){colon}{remedy}" if self.detail else clause
