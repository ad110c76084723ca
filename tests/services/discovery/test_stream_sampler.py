"""The sampler keeps what was heard of lately, and is not moved by who is heard often."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from samples.sampling import entry

from services.discovery.core.stream_sampler import SECRET_BYTES_MAX, SamplerLimits, StreamSampler
from services.discovery.simulation.network import LIFE_S, WALL_S, advert_of

LIMITS = SamplerLimits()


def sampler_of(*numbers: int, limits: SamplerLimits = LIMITS) -> StreamSampler:
    sampler = StreamSampler(b"secret", Random(1), limits)
    for number in numbers:
        sampler.hear(entry(number, age=0), 1)
    return sampler


def kept(sampler: StreamSampler) -> set[int]:
    return {int.from_bytes(one.key, "big") for one in sampler.memory}


@pytest.mark.parametrize("secret", [b"", b"s" * (SECRET_BYTES_MAX + 1)])
def test_a_secret_that_keys_no_hash_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="the secret of ranks has 1 to 64 bytes"):
        StreamSampler(secret, Random(1), LIMITS)


@pytest.mark.parametrize(("few", "share"), [(50, 0.8), (1, 0.5)])
def test_who_sends_much_is_not_drawn_more(few: int, share: float) -> None:
    """50 of 500 identities send 80 % of the stream, one of 500 a half: they are drawn less than twice as often as is
    fair."""
    chance, drawn = Random(3), Counter[int]()
    for node in range(15):
        sampler = StreamSampler(bytes((node + 1,)), Random(node), LIMITS)
        for _ in range(2_500):
            number = chance.randrange(few) if chance.random() < share else chance.randrange(few, 500)
            sampler.hear(entry(number), 1)
        drawn.update(int.from_bytes(one.key, "big") for one in sampler.draw())
    theirs = sum(count for number, count in drawn.items() if number < few)
    assert theirs <= 2 * few * drawn.total() / 500 + 3
    assert len(drawn) > 200


def test_the_memory_is_bounded_and_keeps_the_newest_revision() -> None:
    sampler = sampler_of()
    for number in range(1_000):
        sampler.hear(entry(number), 1)
        assert len(sampler) == len(sampler._ranked) == min(number + 1, LIMITS.memory)
    assert len(sampler.draw()) == LIMITS.drawn
    same = sampler_of(*reversed(range(1_000)))
    assert kept(same) == kept(sampler), "whatever the order"
    newest = sampler_of()
    for rev in (1, 3, 2):
        newest.hear(entry(1, rev=rev), 1)
    assert [one.rev for one in newest.memory] == [3]


def test_what_has_expired_is_too_old_or_is_forgotten_is_gone() -> None:
    sampler = sampler_of(*range(4))
    for number in (0, 3, 3, 99):
        sampler.forget(advert_of(number).key)
    assert kept(sampler) == {1, 2}
    sampler.hear(entry(1, age=LIMITS.age_max), 11)  # heard of longer ago than known: that changes nothing
    sampler.hear(entry(2, age=1), 11)
    sampler.hear(entry(5, age=LIMITS.age_max + 1), 11)
    sampler.pass_period(2 + LIMITS.age_max, WALL_S)
    assert kept(sampler) == {2}
    assert [one.age for one in sampler.pick(8, 12)] == [2], "its age goes on"
    assert sampler.pick(8, 12, but=advert_of(2).key) == ()
    sampler.pass_period(12, WALL_S + LIFE_S)
    assert (len(sampler), sampler.draw(), sampler.next_asked(1)) == (0, (), None)


def test_ranks_are_drawn_anew_so_that_others_come_in() -> None:
    limits = SamplerLimits(memory=10, age_max=1_000, ranks_periods=5)
    sampler = sampler_of(*range(100), limits=limits)
    before = kept(sampler)
    sampler.pass_period(4, WALL_S)
    for number in range(100):
        sampler.hear(entry(number), 4)
    assert kept(sampler) == before
    sampler.pass_period(5, WALL_S)
    assert kept(sampler) == before
    for number in range(100):
        sampler.hear(entry(number), 5)
    assert len(sampler) == 10 and kept(sampler) != before


def test_all_are_asked_in_turn() -> None:
    sampler = sampler_of(*range(20))
    found = [sampler.next_asked(period) for period in range(1, 41)]
    for turn in (found[:20], found[20:]):
        assert {one.key for one in turn if one is not None} == {advert_of(number).key for number in range(20)}
    sampler.hear(entry(20), 41)
    newcomer = sampler.next_asked(41)
    assert newcomer is not None and newcomer.key == advert_of(20).key
    others = [advert_of(number).key for number in range(21) if number != 7]
    left = sampler.next_asked(42, but=others)
    assert left is not None and left.key == advert_of(7).key
