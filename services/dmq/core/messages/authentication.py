"""The checks that decide whether a message is taken: those of dmq-node 0.7, in its order and under its names (CIP-137,
"Message authentication mechanism").

    0 known  1 expired  2 expiry too far  3 too frequent  4 id  5 KES period  6 stake  7 issue number
    8 certificate's signature  9 KES signature

`judge` makes the cheap checks, 0 to 7; `signature_check` describes the last two, which may be made elsewhere and are
remembered there. A message that fails changes nothing. Each message is judged again just before it is taken, in case
another of the same pool was taken meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from router.core.wire.text import counted

from ..stake.chain_time import MAINNET, ChainTime
from ..stake.distribution import StakeSet
from .certificate import PoolId
from .fault import Fault, Rejected
from .signatures import SignatureCheck
from .signed_message import Encoding, SignedMessage

CLOCK_PERIODS = (-1, 0, 1)
"""Number of KES periods around the present one in which a message may be signed that names none (F3)."""


class Topic(Struct, frozen=True):
    """The limits of a topic. `ttl_slack_s` allows for clocks that differ; `pause_s` 0: without a pause."""

    ttl_max_s: float = 1800.0
    ttl_slack_s: float = 0.0
    pause_s: float = 60.0
    chain: ChainTime = MAINNET


class Moment(Struct, frozen=True):
    """The time of a message's arrival: Unix seconds, and seconds of a clock that never steps."""

    wall_s: float
    mono_s: float


class PoolRecord(Struct, gc=False):
    """The latest data of a pool: the issue number of its last certificate, and the time of its last message, by the
    clock that never steps."""

    issue_number: int
    taken_mono_s: float


class Authentication(Struct):
    """The state that verdicts rest on: stake, and a record of each pool in it that has spoken.

    `ends`: of each pool that has spoken since the start, the first KES period after its certificate's."""

    topic: Topic
    encoding: Encoding
    stake: StakeSet | None = None
    records: dict[PoolId, PoolRecord] = field(default_factory=dict)
    ends: dict[PoolId, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        spoken = counted(len(self.records), "pool has spoken", "pools have spoken")
        return f"<Authentication of {self.encoding.name} with {self.stake!r}, {spoken}>"

    def expires_at(self, message: SignedMessage, moment: Moment) -> float:
        """Return when the message expires, in Unix seconds; for a ttl, if it arrives now (F4)."""
        if message.expires_at is not None:
            return float(message.expires_at)
        return moment.wall_s + (message.ttl_s or 0)

    def judge(
        self, message: SignedMessage, moment: Moment, is_known: bool, *, is_relayed: bool = False
    ) -> Rejected | None:
        """Return the first of checks 0 to 7 that the message fails; None if none. `is_known`: `Mempool.knows`;
        `is_relayed`: a peer has brought it, so the time since the pool's last one says nothing."""
        if is_known:
            return Rejected(Fault.DUPLICATE)
        for check in _CHECKS_OF_RELAYED if is_relayed else _CHECKS:
            if (found := check(self, message, moment)) is not None:
                return found
        return None

    def signature_check(self, message: SignedMessage, moment: Moment) -> SignatureCheck:
        """Return the input of checks 8 and 9."""
        evolutions = self._evolutions(message, moment)
        return SignatureCheck(message.certificate.packed, message.signed, message.kes_signature, evolutions)

    def take(self, message: SignedMessage, moment: Moment) -> bool:
        """Record that the message has passed all checks; return whether the pool's record says something new that is to
        last: without a pause it does not matter when the last message came."""
        certificate = message.certificate
        pool, former = certificate.pool, self.records.get(certificate.pool)
        self.records[pool] = PoolRecord(certificate.issue_number, moment.mono_s)
        self.ends[pool] = certificate.start_period + self.topic.chain.kes_evolutions_max
        return self.topic.pause_s > 0 or former is None or former.issue_number != certificate.issue_number

    def learn(self, stake: StakeSet) -> None:
        """Take a new stake distribution; forget the pools that are not in it any more."""
        self.stake = stake
        self.records = {pool: record for pool, record in self.records.items() if pool in stake.pools}
        self.ends = {pool: end for pool, end in self.ends.items() if pool in stake.pools}

    def _evolutions(self, message: SignedMessage, moment: Moment) -> tuple[int, ...]:
        """Return the KES evolutions within the certificate's in which the message may be signed."""
        start, most = message.certificate.start_period, self.topic.chain.kes_evolutions_max
        return tuple([period - start for period in self._periods(message, moment) if 0 <= period - start < most])

    def _periods(self, message: SignedMessage, moment: Moment) -> tuple[int, ...]:
        if message.kes_period is not None:
            return (message.kes_period,)
        now = self.topic.chain.kes_period_at(moment.wall_s)
        return tuple([now + one for one in CLOCK_PERIODS])

    def _not_expired(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        expires_at = self.expires_at(message, moment)
        if moment.wall_s <= expires_at:
            return None
        return Rejected(Fault.EXPIRED, f"{moment.wall_s - expires_at:.1f} s ago")

    def _not_too_far(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        most = self.topic.ttl_max_s + self.topic.ttl_slack_s
        if message.expires_at is None:
            if (message.ttl_s or 0) <= self.topic.ttl_max_s:
                return None
            return Rejected(Fault.TTL_TOO_LARGE, f"{message.ttl_s} s; at most {self.topic.ttl_max_s:g} s")
        left = message.expires_at - moment.wall_s
        return None if left < most else Rejected(Fault.EXPIRY_TOO_FAR, f"in {left:.1f} s; less than {most:g} s allowed")

    def _not_too_frequent(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        record = self.records.get(message.certificate.pool)
        since = moment.mono_s - record.taken_mono_s if record else self.topic.pause_s
        if since >= self.topic.pause_s:
            return None
        return Rejected(Fault.TOO_FREQUENT, f"{since:.1f} s ago; at least {self.topic.pause_s:g} s are required")

    def _right_id(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        right = self.encoding.right_id(message)
        return None if right in (None, message.id) else Rejected(Fault.WRONG_ID)

    def _within_certificate(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        if self._evolutions(message, moment):
            return None
        start = message.certificate.start_period
        end = start + self.topic.chain.kes_evolutions_max
        tried = self._periods(message, moment)
        values = f"period {'/'.join(map(str, tried))}; the certificate holds from {start} to before {end}"
        return Rejected(Fault.AFTER_END if tried[0] >= end else Fault.BEFORE_START, values)

    def _eligible(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        if self.stake is None:
            return Rejected(Fault.NOT_INITIALIZED)
        pool = message.certificate.pool
        stake = self.stake.pools.get(pool)
        if stake:
            return None
        return Rejected(Fault.UNKNOWN_POOL if stake is None else Fault.NOT_ELIGIBLE, pool.text)

    def _latest_certificate(self, message: SignedMessage, moment: Moment) -> Rejected | None:
        record, number = self.records.get(message.certificate.pool), message.certificate.issue_number
        if record is None or number >= record.issue_number:
            return None
        return Rejected(Fault.OLD_CERTIFICATE, f"issue number {number} after {record.issue_number}")


Check = Callable[[Authentication, SignedMessage, Moment], Rejected | None]
_CHECKS: tuple[Check, ...] = (
    Authentication._not_expired,
    Authentication._not_too_far,
    Authentication._not_too_frequent,
    Authentication._right_id,
    Authentication._within_certificate,
    Authentication._eligible,
    Authentication._latest_certificate,
)
_OF_CLIENTS = (Authentication._right_id, Authentication._not_too_frequent)
_CHECKS_OF_RELAYED = (Authentication._right_id, *[check for check in _CHECKS if check not in _OF_CLIENTS])
"""The id first: what follows for an id must not follow from a message that only claims it."""
