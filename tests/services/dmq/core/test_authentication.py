"""Verdicts: on the stored messages, in the reference's order, at the edges of each check, and with remembered data."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from samples.dmq import (
    BODY,
    EXPIRES_AT,
    NOW,
    POOLS,
    SIGNED,
    STAKE,
    START_PERIOD,
    VECTORS,
    Pool,
    altered,
    authentication,
    raw,
)

from router.core.wire.codec import Malformed
from services.dmq.core.messages.authentication import Authentication, Moment, Topic
from services.dmq.core.messages.certificate import PoolId
from services.dmq.core.messages.fault import Fault, Rejected
from services.dmq.core.messages.signatures import SignatureChecker
from services.dmq.core.messages.signed_message import Cip29ffe0e, Dmq04, Dmq05, Encoding, SignedMessage
from services.dmq.core.stake.chain_time import MAINNET, PREPROD
from services.dmq.core.stake.distribution import StakeSet

DMQ, CIP = Dmq05(), Cip29ffe0e()
POOL = POOLS[0]
CHECKER = SignatureChecker()


def verdict(of: Authentication, message: SignedMessage, at: Moment = NOW, is_known: bool = False) -> str:
    """Return the whole verdict as the node reaches it; a message that passes is taken."""
    rejected = of.judge(message, at, is_known)
    if rejected is not None:
        return str(rejected.fault.value)
    fault = CHECKER.fault(of.signature_check(message, at))
    if fault is not None:
        return str(fault.value)
    of.take(message, at)
    return "accept"


def message_of(pool: Pool = POOL, encoding: Encoding = DMQ, **draft: Any) -> SignedMessage:
    return encoding.read(encoding.write(pool.draft(**draft)))


STORED = {one["name"]: one for one in SIGNED["messages"]}


@pytest.mark.parametrize("name", STORED)
def test_stored_messages(name: str) -> None:
    expected, wire = STORED[name]["expect"], raw(STORED[name]["hex"])
    if "decoder failure" in expected:
        with pytest.raises(Malformed, match="the body has"):
            DMQ.read(wire)
    elif expected.startswith("accept"):
        assert verdict(authentication(DMQ), DMQ.read(wire)) == "accept"
    else:
        assert expected.startswith("reject")
        found = verdict(authentication(DMQ), DMQ.read(wire))
        assert found in expected and found in {one.value for one in Fault}


def test_a_stored_lower_counter_after_a_higher_one() -> None:
    known = authentication(DMQ, Topic(pause_s=0))
    assert verdict(known, DMQ.read(raw(STORED["valid_evolution_5"]["hex"]))) == "accept"
    lower = DMQ.read(raw(STORED["lower_opcert_counter"]["hex"]))
    rejected = known.judge(lower, NOW, False)
    assert rejected is not None and rejected.fault is Fault.OLD_CERTIFICATE
    assert rejected.detail == "issue number 6 after 7"


def test_a_stored_message_of_a_pool_that_is_not_known() -> None:
    stranger = DMQ.read(raw(STORED["cold_key_of_another_pool"]["hex"]))
    of = Authentication(Topic(), DMQ, STAKE)
    assert verdict(of, stranger) == "UnrecognizedPool"


def test_a_stored_message_of_0_4() -> None:
    message = Dmq04().read(raw(SIGNED["legacy"][0]["hex"]))
    assert verdict(authentication(Dmq04()), message) == "accept"


SEED = CIP.read(raw(VECTORS["seed_revision"][0]["hex"]))


@pytest.mark.parametrize(
    ("period", "expected"),
    (
        (1428, "KESBeforeStartOCERT"),
        (1429, "accept"),
        (1430, "accept"),
        (1431, "accept"),
        (1432, "InvalidKESSignature"),
        (1492, "InvalidKESSignature"),
        (1493, "KESAfterEndOCERT"),
    ),
)
def test_a_message_of_the_seed_is_signed_in_the_period_of_the_clock_or_beside_it(period: int, expected: str) -> None:
    """F3: a message of the seeds names no period."""
    for slot in (period * 129_600, (period + 1) * 129_600 - 1):
        at = Moment(PREPROD.anchor_s + slot - PREPROD.anchor_slot, 0.0)
        assert verdict(authentication(CIP, Topic(chain=PREPROD)), SEED, at) == expected


class Broken:
    """A message for which every check fails, and the ways to mend one after another, in the reference's order."""

    def __init__(self) -> None:
        self.old, self.pool = Pool(0, issue_number=4), Pool(0, issue_number=3)
        self.of = Authentication(Topic(), DMQ, None)
        self.of.take(message_of(self.old), NOW)
        message = message_of(self.pool)
        certificate = altered(message.certificate, signature=self.old.certificate.signature)
        self.message = replace(message, id=bytes(32), certificate=certificate, kes_period=START_PERIOD + 62,
                               kes_signature=bytes(448))  # fmt: skip
        self.at = Moment(EXPIRES_AT + 0.5, NOW.mono_s + 59.9)
        self.is_known = True

    def verdict(self) -> str:
        return verdict(self.of, self.message, self.at, self.is_known)

    def mends(self) -> list[tuple[str, Any]]:
        right = message_of(self.pool)
        stake = {self.pool.id: 0}
        return [
            ("SigDuplicate", lambda: setattr(self, "is_known", False)),
            ("SigExpired", lambda: setattr(self, "at", Moment(EXPIRES_AT - 1800.0, self.at.mono_s))),
            ("SigExpiresAtTooFarInTheFuture", lambda: setattr(self, "at", Moment(NOW.wall_s, self.at.mono_s))),
            ("SigTooFrequent", lambda: setattr(self, "at", Moment(NOW.wall_s, NOW.mono_s + 60.0))),
            ("InvalidSigId", lambda: self.change(id=right.id)),
            ("KESAfterEndOCERT", lambda: self.change(kes_period=START_PERIOD - 1)),
            ("KESBeforeStartOCERT", lambda: self.change(kes_period=START_PERIOD)),
            ("NotInitialized", lambda: setattr(self.of, "stake", StakeSet({}, 0))),
            ("UnrecognizedPool", lambda: setattr(self.of, "stake", StakeSet(stake, 0))),
            ("PoolNotEligible", lambda: stake.update({self.pool.id: 1})),
            ("InvalidOCertCounter", lambda: setattr(self.of.records[self.pool.id], "issue_number", 3)),
            ("InvalidSignatureOCERT", lambda: self.change(certificate=right.certificate)),
            ("InvalidKESSignature", lambda: self.change(kes_signature=right.kes_signature)),
        ]

    def change(self, **parts: Any) -> None:
        self.message = replace(self.message, **parts)


def test_the_order_of_checks_is_the_references() -> None:
    """Each fault hides all later ones; a message that fails changes nothing."""
    broken = Broken()
    before = broken.of.records.copy()
    found = []
    for _, mend in broken.mends():
        found.append(broken.verdict())
        assert broken.of.records == before
        mend()
    assert found == [name for name, _ in broken.mends()]
    assert broken.verdict() == "accept"


@pytest.mark.parametrize(
    ("left_s", "slack_s", "expected"),
    (
        (-0.001, 0, "SigExpired"),
        (0.0, 0, "accept"),
        (1799.999, 0, "accept"),
        (1800.0, 0, "SigExpiresAtTooFarInTheFuture"),
        (1800.0, 5, "accept"),
        (1805.0, 5, "SigExpiresAtTooFarInTheFuture"),
    ),
)
def test_the_edges_of_expiry(left_s: float, slack_s: float, expected: str) -> None:
    at = Moment(EXPIRES_AT - left_s, 0.0)
    assert verdict(authentication(DMQ, Topic(ttl_slack_s=slack_s)), message_of(), at) == expected


@pytest.mark.parametrize(("ttl_s", "expected"), ((0, "accept"), (1800, "accept"), (1801, "ttlTooLarge")))
def test_a_ttl_counts_from_the_arrival(ttl_s: int, expected: str) -> None:
    """F4: the clock of the sender does not matter."""
    of = authentication(CIP, Topic(chain=MAINNET))
    at = Moment(MAINNET.anchor_s + START_PERIOD * 129_600 - MAINNET.anchor_slot, 0.0)
    message = message_of(encoding=CIP, ttl_s=ttl_s)
    assert verdict(of, message, at) == expected
    assert of.expires_at(message, at) == at.wall_s + ttl_s
    assert authentication(DMQ).expires_at(message_of(), at) == EXPIRES_AT


def test_the_pause_of_a_pool_is_its_own() -> None:
    of = authentication(DMQ)
    assert verdict(of, message_of()) == "accept"
    second = message_of(body=BODY * 2)
    assert verdict(of, second, Moment(NOW.wall_s, NOW.mono_s + 59.9)) == "SigTooFrequent"
    assert verdict(of, message_of(POOLS[1]), Moment(NOW.wall_s, NOW.mono_s + 1)) == "accept"
    assert verdict(of, second, Moment(NOW.wall_s, NOW.mono_s + 60.0)) == "accept"
    assert verdict(authentication(DMQ, Topic(pause_s=0)), second) == "accept"


def test_a_pool_that_lost_its_place_is_forgotten() -> None:
    of = authentication(DMQ, Topic(pause_s=0))
    for pool in POOLS:
        assert verdict(of, message_of(pool)) == "accept"
    of.learn(StakeSet({POOLS[1].id: 5}, NOW.wall_s + 1))
    assert set(of.records) == {POOLS[1].id}
    assert repr(of) == "<Authentication of dmq-0.5 with <StakeSet of 1 pool, as of 1789999101>, 1 pool has spoken>"
    assert verdict(of, message_of()) == "UnrecognizedPool"


def test_an_equal_issue_number_is_no_old_one() -> None:
    of = authentication(DMQ, Topic(pause_s=0))
    newer = Pool(0, issue_number=1)
    assert [verdict(of, message_of(one)) for one in (POOL, POOL, newer, POOL)] == [
        "accept", "accept", "accept", "InvalidOCertCounter",
    ]  # fmt: skip


def test_what_was_verified_is_not_verified_again() -> None:
    checker = SignatureChecker(certificates_max=2, paths_max=2)
    of = authentication(DMQ)
    for pool in POOLS:
        for body in (BODY, BODY * 2):
            assert checker.fault(of.signature_check(message_of(pool, body=body), NOW)) is None
    assert repr(checker) == "<SignatureChecker that knows 2 certificates, 2 KES paths>"
    known = of.signature_check(message_of(POOLS[2]), NOW)
    spoilt = known.kes_signature[:70] + bytes((known.kes_signature[70] ^ 1,)) + known.kes_signature[71:]
    assert checker.fault(replace(known, kes_signature=spoilt)) is Fault.BAD_SIGNATURE
    wrong = altered(POOLS[2].certificate, issue_number=9).packed
    assert checker.fault(replace(known, certificate=wrong)) is Fault.BAD_CERTIFICATE
    assert repr(checker).endswith("2 certificates, 2 KES paths>"), "what is wrong is not remembered"
    assert checker.fault(replace(known, signed=b"another")) is Fault.BAD_SIGNATURE
    assert checker.fault(replace(known, evolutions=(1, 0))) is None
    assert checker.fault(replace(known, evolutions=())) is Fault.BAD_SIGNATURE


def test_a_certificate_that_another_process_has_verified_is_not_verified_again() -> None:
    here, there, of = SignatureChecker(), SignatureChecker(), authentication(DMQ)
    first, second = (of.signature_check(message_of(body=body), NOW) for body in (BODY, BODY * 2))
    assert here.without_known(first) == first and there.fault(first) is None
    here.learn(first)
    told = here.without_known(second)
    assert told == replace(second, is_certified=True)
    assert SignatureChecker().fault(told) is None
    assert SignatureChecker().fault(replace(told, signed=b"another")) is Fault.BAD_SIGNATURE
    wrong = replace(second, certificate=altered(POOL.certificate, issue_number=9).packed)
    assert here.without_known(wrong) == wrong, "another certificate is not known"
    assert SignatureChecker().fault(wrong) is Fault.BAD_CERTIFICATE


def test_a_verdict_says_what_decided() -> None:
    rejected = authentication(DMQ).judge(message_of(evolution=0), Moment(EXPIRES_AT + 2.25, 0), False)
    assert rejected is not None
    assert rejected.text == "SigExpired: the message's expiry has passed by the clock of the DMQ node (2.2 s ago)."
    unknown = Rejected(Fault.UNKNOWN_POOL, "pool1x")
    assert unknown.text.startswith(
        "UnrecognizedPool: the stake distribution does not hold the pool (pool1x): a pool is"
    )
    assert PoolId(raw(SIGNED["pools"]["kes_agent_fixture"])) in (authentication(DMQ).stake or STAKE).pools
