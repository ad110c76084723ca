"""Filters of groups: the bits of a group, their randomisation, and that repeated filters give nothing away."""

from __future__ import annotations

from math import comb, exp, log
from random import Random
from statistics import fmean

import pytest
from blake3 import blake3

from router.core.wire.crypto import PublicKey
from services.pubsub.core.meetings.filters import (
    BITS,
    FILTER_BYTES,
    ONES_MAX,
    Reading,
    agreement,
    bits_of,
    count_ones,
    mask_of,
    tell,
)

CHANCE = Random(1)
GROUPS = [PublicKey(CHANCE.randbytes(32)) for _ in range(300)]
P = 1 / (1 + exp(3 / 4))


def ones(told: bytes) -> set[int]:
    return {bit for bit in range(BITS) if told[bit >> 3] >> (bit & 7) & 1}


def test_the_bits_of_a_group_are_those_of_the_reading() -> None:
    digest = blake3(b"upsycle interest 1" + bytes(32)).digest()
    assert bits_of(PublicKey(bytes(32))) == tuple(
        int.from_bytes(digest[2 * j : 2 * j + 2], "big") % 1024 for j in range(4)
    )


def test_the_same_groups_and_secret_always_give_the_same_filter() -> None:
    told = tell(GROUPS[:20], bytes(32))
    assert told == tell(reversed(GROUPS[:20]), bytes(32))
    assert len(told) == FILTER_BYTES == 128
    assert told != tell(GROUPS[:20], b"\1" * 32)


@pytest.mark.parametrize("secret", [bytes([number]) * 32 for number in range(20)])
def test_a_group_more_changes_no_bit_but_its_own(secret: bytes) -> None:
    before, after = ones(tell(GROUPS[:20], secret)), ones(tell(GROUPS[:21], secret))
    assert before ^ after <= set(bits_of(GROUPS[20]))


def test_each_bit_is_told_the_other_way_as_often_as_epsilon_says() -> None:
    secrets = [CHANCE.randbytes(32) for _ in range(200)]
    wrong_of_nothing = sum(len(ones(tell((), secret))) for secret in secrets) / (200 * BITS)
    assert wrong_of_nothing == pytest.approx(P, abs=0.006)
    true = {bit for group in GROUPS for bit in bits_of(group)}
    missing = sum(len(true - ones(tell(GROUPS, secret))) for secret in secrets) / (200 * len(true))
    assert missing == pytest.approx(P, abs=0.006)


def test_agreement_counts_the_bits_that_are_there() -> None:
    assert agreement(b"\xff" * FILTER_BYTES, GROUPS[0]) == 4
    assert agreement(bytes(FILTER_BYTES), GROUPS[0]) == 0
    one = bits_of(GROUPS[0])[0]
    assert agreement((1 << one).to_bytes(FILTER_BYTES, "little"), GROUPS[0]) == bits_of(GROUPS[0]).count(one)


def advantage(others: int) -> float:
    """Return the greatest advantage in telling a node that wants a group from one that does not, all else being equal.

    The bits of a group are alike and independent, so only their number counts: it is the distance of two binomial
    distributions."""
    filled = 1 - (1 - 1 / BITS) ** (4 * others)

    def odds(p: float, count: int) -> float:
        return comb(4, count) * p**count * (1 - p) ** (4 - count)

    return sum(max(0.0, odds(1 - P, count) - odds(P + filled * (1 - 2 * P), count)) for count in range(5))


def test_the_advantage_of_one_who_knows_a_topics_key_is_at_most_a_half() -> None:
    assert advantage(others=20) == pytest.approx(0.49, abs=0.002) and advantage(others=20) <= 0.50
    assert all(advantage(others=more) < advantage(others=20) for more in range(21, 200))


def test_a_filter_of_a_thousand_groups_tells_next_to_nothing() -> None:
    assert [round(advantage(others), 3) for others in (100, 250, 500, 1_000)] == [0.391, 0.233, 0.090, 0.013]


def test_the_best_guess_at_what_is_told_has_no_greater_advantage() -> None:
    known = next(group for group in GROUPS if len(set(bits_of(group))) == 4)
    others = [group for group in GROUPS if group != known][:20]
    hits, rounds = [0, 0], 1_500
    for wants in (0, 1):
        for _ in range(rounds):
            hits[wants] += agreement(tell([*others, *[known] * wants], CHANCE.randbytes(32)), known) >= 3
    assert (hits[1] - hits[0]) / rounds == pytest.approx(advantage(others=20), abs=4 * (2 * 0.25 / rounds) ** 0.5)


def test_one_that_seems_to_want_everything_is_like_nothing() -> None:
    assert all(Reading(b"\xff" * FILTER_BYTES).likelihood(group) < 1 for group in GROUPS)
    assert max(count_ones(tell(GROUPS, bytes([number]) * 32)) for number in range(50)) <= ONES_MAX


def test_a_filter_is_likelier_if_its_node_wants_the_group() -> None:
    wanted, others = (
        fmean(log(Reading(tell([told], bytes([number]) * 32)).likelihood(GROUPS[0])) for number in range(50))
        for told in GROUPS[:2]
    )
    assert wanted > 0 > others


def test_the_likelihood_is_that_of_each_bit_once() -> None:
    told = tell((), bytes(32))
    share = count_ones(told) / BITS
    twice = next(group for group in GROUPS if len(set(bits_of(group))) == 3)
    assert mask_of(twice).bit_count() == 3
    for group in (GROUPS[0], twice):
        expected = 1.0
        for bit in set(bits_of(group)):
            expected *= (1 - P) / share if bit in ones(told) else P / (1 - share)
        assert Reading(told).likelihood(group) == pytest.approx(expected)
