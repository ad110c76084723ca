"""The sketches count as promised, and the sampler is not moved by who is heard often."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.sampling import entry

from services.discovery.core.sketches import CountMin, Distinct, KeyedHash
from services.discovery.core.stream_sampler import SamplerLimits, StreamSampler
from services.discovery.simulation.network import LIFE_S, WALL_S, advert_of

LIMITS = SamplerLimits()


@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.integers(1, 40))
def test_an_estimate_is_never_too_low(stream: list[int], width: int) -> None:
    hashed, sketch, counts = KeyedHash(4, b"secret"), CountMin(4, width), Counter[int]()
    for number in stream:
        counts[number] += 1
        assert counts[number] <= sketch.add(hashed(advert_of(number).key)) <= len(stream)
        assert 1 <= sketch.least <= min(count for count in counts.values()) + len(stream) * (width < 60)
        assert sketch.least == min(count for cells in sketch._cells for count in cells if count)


def test_wide_enough_the_estimate_is_the_count() -> None:
    hashed, sketch = KeyedHash(10, b"secret"), CountMin(10, 1_000)
    for number in range(50):
        for count in range(1, number + 2):
            assert sketch.add(hashed(advert_of(number).key)) == count
    assert sketch.least == 1


def test_collisions_depend_on_the_secret() -> None:
    """Two ids that share a column under one secret do so under another by chance alone."""
    keys = [advert_of(number).key for number in range(1_000)]
    first, second = KeyedHash(1, b"one"), KeyedHash(1, b"two")
    together = [key for key in keys if first(key)[0] % 250 == first(keys[0])[0] % 250]
    assert len(together) > 1
    assert not all(second(key)[0] % 250 == second(keys[0])[0] % 250 for key in together)


@pytest.mark.parametrize(("rows", "secret"), [(0, b"s"), (15, b"s"), (10, b"")])
def test_a_sketch_without_rows_or_secret_is_refused(rows: int, secret: bytes) -> None:
    with pytest.raises(ValueError, match="rows and a secret"):
        KeyedHash(rows, secret)


@pytest.mark.parametrize("number", [0, 1, 255, 2_000, 20_000])
def test_the_number_of_different_ids_is_estimated(number: int) -> None:
    hashed, distinct = KeyedHash(1, b"secret"), Distinct()
    for _ in range(2):
        for each in range(number):
            distinct.add(hashed(advert_of(each).key))
    assert len(distinct) == pytest.approx(number, rel=0.2 if number > 255 else 0)


def draws(stream: list[int], seed: int) -> Counter[int]:
    """Return how often each was drawn while the second half of the stream was heard."""
    sampler, drawn = StreamSampler(b"secret", Random(seed), LIMITS), Counter[int]()
    for at, number in enumerate(stream):
        sampler.hear(advert_of(number), 0.0)
        if at > len(stream) // 2 and at % 16 == 0:
            drawn.update(int.from_bytes(one.key, "big") for one in sampler.draw(WALL_S))
    return drawn


def test_who_sends_much_is_not_drawn_more() -> None:
    """50 of 500 identities send 80 % of the stream, one of 500 half of it: less than twice the fair share."""
    chance = Random(3)
    for few, share in ((50, 0.8), (1, 0.5)):
        stream = [
            chance.randrange(few) if chance.random() < share else chance.randrange(few, 500) for _ in range(60_000)
        ]
        drawn = draws(stream, 1)
        theirs = sum(count for number, count in drawn.items() if number < few)
        assert theirs / drawn.total() < 2 * few / 500
        assert len(drawn) > 400


def test_the_memory_is_bounded_and_keeps_the_newest_revision() -> None:
    sampler = StreamSampler(b"secret", Random(1), LIMITS)
    for number in range(1_000):
        sampler.hear(advert_of(number), 0.0)
        assert len(sampler) == min(number + 1, LIMITS.memory)
    assert len(sampler.draw(WALL_S)) == LIMITS.drawn
    newest = StreamSampler(b"secret", Random(1), LIMITS)
    for rev in (1, 3, 2):
        newest.hear(entry(1, rev=rev).advert, 0.0)
    assert [one.rev for one in newest.draw(WALL_S)] == [3]


def test_what_has_expired_or_is_forgotten_is_not_drawn() -> None:
    sampler = StreamSampler(b"secret", Random(1), LIMITS)
    for number in range(4):
        sampler.hear(advert_of(number), 0.0)
    for number in (0, 3, 3, 99):
        sampler.forget(advert_of(number).key)
    assert {one.key for one in sampler.draw(WALL_S)} == {advert_of(1).key, advert_of(2).key}
    assert sampler.draw(WALL_S + LIFE_S) == ()
    assert len(sampler) == 0


def test_the_sketch_grows_with_the_ids_of_an_hour_up_to_its_limit() -> None:
    limits = SamplerLimits(width_max=400)
    sampler, widths = StreamSampler(b"secret", Random(1), limits), list[int]()
    for hour, ids in enumerate((1_400, 8_000, 10, 10)):
        for number in range(ids):
            sampler.hear(advert_of(number), hour * limits.sketch_s)
        widths.append(sampler.width)
    assert widths[:2] == [250, 250]
    assert 250 < widths[2] < 400
    assert widths[3] == 400
