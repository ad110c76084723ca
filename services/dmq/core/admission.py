"""Admission of a message from a signer or a peer: cheap checks, signatures verified elsewhere in batches, the checks
once more, and the mempool.

Batches form by themselves while others are under way. The few messages that come during a commit are verified here,
which takes less than to ask another process: some seven milliseconds at most, or eighteen if nodes alone wait for that.

Between the two rounds of checks another message of the pool may
have been taken, so the second round decides; nothing was changed by the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from msgspec import Struct

from router.service import contract as c
from services.dmq.signature_job import encode_batch, faults

from .clients.connection import ClientSession
from .holdings import Holdings
from .mempool import Row
from .messages.authentication import Moment, PoolRecord
from .messages.fault import Fault, Rejected
from .messages.signatures import SignatureCheck, SignatureChecker
from .messages.signed_message import SignedMessage
from .stake.distribution import StakeSet

BATCH_MAX = 64
UNDER_WAY_MAX = 1
AT_ONCE_MAX = 48
"""Most messages that are verified in this process if nothing is under way, but none while wrong signatures come."""
RELAYED_AT_ONCE_MAX = 128
"""Most of them that are verified there if other nodes or the group have brought all: forty at once in a round, and now
and then a hundred."""
LATE_S = 0.1
"""How long after a batch went to the other process, which gives way to everybody, some are verified here meanwhile."""
DOUBT_S = 10.0
"""How long after a wrong signature others are expected."""
ATTEMPTS_MAX = 3
JOB, TAG = "services.dmq.signature_job:verify_batch", "signatures "


class FromPeer(Struct, frozen=True):
    """The source of a message that another node has brought; `address`: that of the node."""

    address: str


class FromGroup(Struct, frozen=True):
    """The source of a message that was heard in the topic's group, whose name this is."""

    name: str


class FromUnicast(Struct, frozen=True):
    """The source of a message that was handed in by a unicast from this address."""

    address: c.PublicKey


_RELAYING = FromPeer, FromGroup
Source = ClientSession | FromPeer | FromGroup | FromUnicast
"""What brought a message. A client's messages are judged by the time since its pool's last one, those of peers and of
the group by how many of the pool are live: a node that was away gets a backlog."""


class Candidate(Struct, frozen=True):
    """A message between the two rounds of checks, with when it expires and what is to be verified; `rests_on`: the
    record of its pool and the stake by which it was judged."""

    source: Source
    message: SignedMessage
    expires_at: float
    check: SignatureCheck
    rests_on: tuple[PoolRecord | None, StakeSet | None]


class AdmissionVerdict(Struct, frozen=True):
    """The verdict on a message: its row and the deeds that keep it, or why it was rejected."""

    source: Source
    message: SignedMessage
    rejected: Rejected | None
    row: Row | None = None
    deeds: Sequence[c.Deed] = ()


class SignaturesFailed(RuntimeError):
    """Signatures could not be verified after several attempts."""


class Admission:
    """Messages on their way into the mempool: at most one of each client's connection, as the
    protocol prescribes, and what peers were asked for."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._checker = SignatureChecker()
        self._doubted_until_s = 0.0
        self.verifications = 0
        """How many messages' signatures were verified since the start."""
        self._held: deque[tuple[ClientSession, SignedMessage]] = deque()
        self._candidates: deque[Candidate] = deque()
        self._under_way: dict[str, list[Candidate]] = {}
        self._batches = 0
        self._sent_s = 0.0
        self._failures = 0

    def __repr__(self) -> str:
        return f"<Admission: {len(self._candidates)} wait, {len(self._under_way)} batches are under way>"

    def hold(self, client: ClientSession, message: SignedMessage) -> None:
        """Keep a message until it can be judged."""
        self._held.append((client, message))

    def held(self) -> list[tuple[ClientSession, SignedMessage]]:
        """Return the messages that were held, and forget them."""
        found, self._held = list(self._held), deque()
        return found

    def judge(self, source: Source, message: SignedMessage, now: Moment) -> Rejected | None:
        """Return why the message is rejected; None if its signatures are to be verified."""
        if (found := self._unfit(source, message, now)) is None:
            authentication = self._holdings.authentication
            expires_at = authentication.expires_at(message, now)
            check = authentication.signature_check(message, now)
            self._candidates.append(Candidate(source, message, expires_at, check, self._grounds(message)))
        return found

    def judge_here(self, source: Source, message: SignedMessage, now: Moment) -> AdmissionVerdict:
        """Judge a message and verify its signatures here: the verdict commits together with what brought it."""
        if (found := self._unfit(source, message, now)) is not None:
            return AdmissionVerdict(source, message, found)
        authentication = self._holdings.authentication
        expires_at, check = authentication.expires_at(message, now), authentication.signature_check(message, now)
        [fault] = self._checker.faults([check])
        return self._decided(Candidate(source, message, expires_at, check, self._grounds(message)), fault, now)

    def at_once(self, now: Moment) -> list[AdmissionVerdict]:
        """Verify what waits here, if it is little and nothing is under way, or a part of it, if the other process is
        late; return what became of it."""
        is_late = bool(self._under_way) and now.mono_s >= self._sent_s + LATE_S
        is_little = not self._under_way and len(self._candidates) <= self._at_once_max
        if self.is_in_doubt(now.mono_s) or not (is_late or is_little):
            return []
        count = min(self._at_once_max, len(self._candidates))
        some = [self._candidates.popleft() for _ in range(count)]
        faults = self._checker.faults([one.check for one in some])
        return [self._decided(one, fault, now) for one, fault in zip(some, faults, strict=True)]

    @property
    def _at_once_max(self) -> int:
        """Return how many messages may be verified in this process at once."""
        is_relayed = len(self._candidates) > AT_ONCE_MAX and all(_is_relayed(one.source) for one in self._candidates)
        return RELAYED_AT_ONCE_MAX if is_relayed else AT_ONCE_MAX

    @property
    def due_s(self) -> float:
        """When `at_once` has something to do, if the other process is not done by then: while wrong signatures come,
        nothing."""
        is_due = self._under_way and self._candidates
        return max(self._sent_s + LATE_S, self._doubted_until_s) if is_due else inf

    def is_in_doubt(self, mono_s: float) -> bool:
        """Whether wrong signatures have come just before."""
        return mono_s < self._doubted_until_s

    def is_of_others(self, tag: str) -> bool:
        """Whether no client waits for this batch, or behind it: other nodes, or the group, have brought all of that."""
        batch = self._under_way.get(tag)
        return batch is not None and all(_is_relayed(one.source) for one in (*batch, *self._candidates))

    def batches(self, now: Moment) -> list[c.Deed]:
        """Return the jobs that verify the waiting signatures, unless too many batches are under way."""
        deeds: list[c.Deed] = []
        while self._candidates and len(self._under_way) < UNDER_WAY_MAX:
            batch = [self._candidates.popleft() for _ in range(min(BATCH_MAX, len(self._candidates)))]
            self._batches += 1
            tag = f"{TAG}{self._batches}"
            self._under_way[tag] = batch
            self._sent_s = now.mono_s
            checks = [self._checker.without_known(one.check) for one in batch]
            deeds.append(c.Compute(JOB, encode_batch(checks), tag))
        return deeds

    def verified(self, heard: c.Computed, now: Moment) -> list[AdmissionVerdict]:
        """Return the verdicts on the messages of a batch; raise `SignaturesFailed`."""
        batch = self._under_way.pop(heard.tag)
        if heard.error:
            self._failures += 1
            if self._failures >= ATTEMPTS_MAX:
                raise SignaturesFailed(f"signatures could not be verified {ATTEMPTS_MAX} times: {heard.error}")
            self._candidates.extendleft(reversed(batch))
            return []
        self._failures = 0
        verdicts = []
        for one, fault in zip(batch, faults(heard.result), strict=True):
            if fault is None:
                self._checker.learn(one.check)
            verdicts.append(self._decided(one, fault, now))
        return verdicts

    def _decided(self, one: Candidate, fault: Fault | None, now: Moment) -> AdmissionVerdict:
        self.verifications += 1
        if fault is not None:
            self._doubted_until_s = now.mono_s + DOUBT_S
        rejected = self._unfit_now(one, now) or (Rejected(fault) if fault is not None else None)
        if rejected is not None:
            return AdmissionVerdict(one.source, one.message, rejected)
        row, deeds = self._holdings.take(one.message, one.expires_at, now, is_relayed=_is_relayed(one.source))
        return AdmissionVerdict(one.source, one.message, None, row, deeds)

    def _grounds(self, message: SignedMessage) -> tuple[PoolRecord | None, StakeSet | None]:
        authentication = self._holdings.authentication
        return authentication.records.get(message.certificate.pool), authentication.stake

    def _unfit_now(self, one: Candidate, now: Moment) -> Rejected | None:
        """Judge again: if nothing was taken of the pool meanwhile and the stake is as it was, time and room count."""
        record, stake = self._grounds(one.message)
        is_as_before = record is one.rests_on[0] and stake is one.rests_on[1] and now.wall_s <= one.expires_at
        if is_as_before:
            return self._holdings.mempool.judge(one.message, now, is_relayed=_is_relayed(one.source))
        return self._unfit(one.source, one.message, now)

    def _unfit(self, source: Source, message: SignedMessage, now: Moment) -> Rejected | None:
        mempool, is_relayed = self._holdings.mempool, _is_relayed(source)
        found = self._holdings.authentication.judge(message, now, mempool.knows(message), is_relayed=is_relayed)
        found = found or mempool.judge(message, now, is_relayed=is_relayed)
        return found if found or self._holdings.has_room else Rejected(Fault.DISK_FULL)


def _is_relayed(source: Source) -> bool:
    return isinstance(source, _RELAYING)
