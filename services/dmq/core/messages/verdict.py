"""Judge messages without a node: by a node's rules, but without a mempool, so that none is a duplicate or too early.

The issue numbers of certificates are remembered from message to message, as a node remembers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.codec import Malformed

from ..protocols.revision import Revision
from ..stake.distribution import StakeSet
from .authentication import Authentication, Moment, Topic
from .certificate import PoolId
from .fault import Rejected
from .signatures import SignatureChecker
from .signed_message import SignedMessage

ACCEPT, REJECT = "accept", "reject"
DECODER_FAILURE = "DecoderFailure"
"""The reference's name for bytes that are no message, on which a node closes the connection."""


class Verdict(Struct, frozen=True):
    """A node's verdict on a message. `reason`: the reference's name; `id` and `pool` are None if the bytes are no
    message."""

    verdict: str
    revision: str
    sentence: str
    reason: str | None = None
    id: bytes | None = None
    pool: PoolId | None = None


class _EveryPool(Mapping[PoolId, int]):
    """A stake of one lovelace for every pool."""

    def __getitem__(self, pool: PoolId) -> int:
        return 1

    def __iter__(self) -> Iterator[PoolId]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, pool: object) -> bool:
        return True


class Judge:
    """Gives the verdicts of a node with this `revision`; without `stake`, every pool may send."""

    def __init__(self, revision: Revision, topic: Topic, stake: StakeSet | None = None) -> None:
        self._revision = revision
        self._checker = SignatureChecker()
        stake = stake or StakeSet(_EveryPool(), 0.0)
        self._authentication = Authentication(replace(topic, pause_s=0.0), revision.encoding, stake)

    def __repr__(self) -> str:
        return f"<Judge of {self._revision.name}: {self._authentication!r}>"

    def judge(self, wire: bytes, wall_s: float) -> Verdict:
        """Return the verdict on the message that arrives at `wall_s`, in Unix seconds."""
        try:
            message = self._revision.encoding.read(wire)
        except Malformed as error:
            text = f"This is no message of {self._revision.name}: {error}."
            return Verdict(REJECT, self._revision.name, text, DECODER_FAILURE)
        moment = Moment(wall_s, wall_s)
        if (rejected := self._rejected(message, moment)) is None:
            self._authentication.take(message, moment)
            left_s = self._authentication.expires_at(message, moment) - wall_s
            text = f"The certificate and both signatures are right; it expires in {left_s:.0f} s."
            return self._of(message, ACCEPT, None, text)
        return self._of(message, REJECT, rejected.fault.value, rejected.sentence)

    def _rejected(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        authentication = self._authentication
        if (rejected := authentication.judge(message, moment, is_known=False)) is not None:
            return rejected
        fault = self._checker.fault(authentication.signature_check(message, moment))
        return Rejected(fault) if fault else None

    def _of(self, message: SignedMessage, verdict: str, reason: str | None, sentence: str) -> Verdict:
        return Verdict(verdict, self._revision.name, sentence, reason, message.id, message.certificate.pool)
