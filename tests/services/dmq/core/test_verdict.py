"""Verdicts without a node: the stored messages in one go, every revision, and bytes that are no message."""

from __future__ import annotations

import pytest
from samples.dmq import NOW, POOLS, SIGNED, STAKE, VECTORS, raw

from services.dmq.core.messages.authentication import Topic
from services.dmq.core.messages.certificate import PoolId
from services.dmq.core.messages.verdict import Judge
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.chain_time import MAINNET
from services.dmq.core.stake.distribution import StakeSet

OF_EVERY_POOL = {
    "cold_key_of_another_pool": "InvalidSignatureOCERT",
    "lower_opcert_counter": "InvalidOCertCounter",
    "body_89_bytes": "DecoderFailure",
    "body_2001_bytes": "DecoderFailure",
}


def judge(name: str = "dmq-0.5", stake: StakeSet | None = None) -> Judge:
    return Judge(REVISIONS[name], Topic(), stake)


def test_the_stored_messages_in_one_go() -> None:
    """Issue numbers are remembered; it is no fault that several messages have one id and are of one pool."""
    one = judge()
    for vector in SIGNED["messages"]:
        found = one.judge(raw(vector["hex"]), NOW.wall_s)
        wanted = OF_EVERY_POOL.get(vector["name"]) or vector["expect"].removeprefix("reject ")
        accepts = wanted.startswith("accept")
        assert (found.verdict, found.reason) == (("accept", None) if accepts else ("reject", wanted)), vector["name"]
        assert found.revision == "dmq-0.5" and found.sentence.endswith(".")
        assert (found.id is None) is (found.reason == "DecoderFailure")
        assert found.id is None or found.id.hex() == vector["id"]


def test_only_the_pools_of_a_stake_file() -> None:
    [vector] = [one for one in SIGNED["messages"] if one["name"] == "valid_evolution_5"]
    pool = PoolId(raw(SIGNED["pools"]["kes_agent_fixture"]))
    assert judge(stake=STAKE).judge(raw(vector["hex"]), NOW.wall_s).reason == "UnrecognizedPool"
    assert judge(stake=StakeSet({pool: 0}, 0.0)).judge(raw(vector["hex"]), NOW.wall_s).reason == "PoolNotEligible"
    found = judge(stake=StakeSet({pool: 1}, 0.0)).judge(raw(vector["hex"]), NOW.wall_s)
    assert (found.verdict, found.pool) == ("accept", pool)
    assert found.sentence == "The certificate and both signatures are right; it expires in 900 s."


@pytest.mark.parametrize(("seconds", "reason"), ((1, None), (0, None), (-1, "SigExpired")))
def test_the_time_of_arrival(seconds: int, reason: str | None) -> None:
    wire = REVISIONS["dmq-0.5"].encoding.write(POOLS[0].draft())
    assert judge().judge(wire, SIGNED["expires_at"] - seconds).reason == reason


def test_the_older_encoding() -> None:
    [vector] = SIGNED["legacy"]
    assert judge("dmq-0.4").judge(raw(vector["hex"]), NOW.wall_s).verdict == "accept"
    found = judge().judge(raw(vector["hex"]), NOW.wall_s)
    assert found.sentence == "This is no message of dmq-0.5: the message has 4 items instead of 5."


@pytest.mark.parametrize(("periods", "accepts"), ((-2, False), (-1, True), (0, True), (1, True), (2, False)))
def test_a_message_of_the_seeds(periods: int, accepts: bool) -> None:
    wire = raw(VECTORS["seed_revision"][0]["hex"])
    wall_s = MAINNET.anchor_s + (1430 + periods) * MAINNET.slots_per_kes_period - MAINNET.anchor_slot
    assert (judge("cip-29ffe0e").judge(wire, wall_s).verdict == "accept") is accepts
