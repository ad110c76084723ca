"""The table of latency buckets: narrow, in order, mergeable, and exact in integers."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.judgement.latency import bucket, percentile, upper_edge

VALUES = st.integers(0, (1 << 63) - 1)


@pytest.mark.parametrize(
    ("value", "number", "edge"),
    [
        (0, 0, 0), (127, 127, 127), (128, 128, 128), (255, 255, 255), (256, 256, 257), (257, 256, 257),
        (258, 257, 259), (511, 383, 511), (512, 384, 515), (1_000_000, 1780, 1_003_519),
        ((1 << 63) - 1, 128 * 55 + 255, (1 << 63) - 1),
    ],
)  # fmt: skip
def test_buckets_by_value(value: int, number: int, edge: int) -> None:
    assert (bucket(value), upper_edge(number)) == (number, edge)


@given(VALUES)
def test_a_bucket_is_at_most_a_128th_of_its_values_wide(value: int) -> None:
    number = bucket(value)
    lower = upper_edge(number - 1) + 1 if number else 0
    assert lower <= value <= upper_edge(number)
    assert 128 * (upper_edge(number) - lower) <= lower
    assert bucket(lower) == bucket(upper_edge(number)) == number


@given(VALUES, VALUES)
def test_greater_values_have_no_smaller_bucket(one: int, two: int) -> None:
    assert (one <= two) <= (bucket(one) <= bucket(two))


def test_no_bucket_is_left_out() -> None:
    assert {bucket(value) for value in range(1 << 12)} == set(range(bucket((1 << 12) - 1) + 1))


@given(st.lists(VALUES, min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_is_the_upper_edge_of_the_nearest_rank(values: list[int], percent: int) -> None:
    ranked = sorted(values)[-(-len(values) * percent // 100) - 1]
    found = percentile(Counter(map(bucket, values)), percent, max(values))
    assert found == min(upper_edge(bucket(ranked)), max(values))
    assert found is not None and ranked <= found <= ranked + ranked // 128 + 1


@given(st.lists(VALUES, max_size=50), st.lists(VALUES, min_size=1, max_size=50))
def test_tables_merge_as_values_do(one: list[int], two: list[int]) -> None:
    merged = Counter(map(bucket, one)) + Counter(map(bucket, two))
    assert merged == Counter(map(bucket, one + two))
    assert percentile(merged, 99, max(one + two)) == percentile(Counter(map(bucket, two + one)), 99, max(one + two))


def test_percentiles_by_value() -> None:
    counts = {10: 50, 20: 45, 300: 5}
    assert [percentile(counts, percent, 1000) for percent in (1, 50, 51, 95, 96)] == [10, 10, 20, 20, 345]
    assert percentile({300: 1}, 100, 344) == 344
    assert percentile({7: 0}, 50, 0) is None
    assert percentile({}, 50, 0) is None
