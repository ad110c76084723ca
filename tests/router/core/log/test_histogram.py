"""Histograms: each value is counted once, below the first bound that it does not exceed."""

from __future__ import annotations

from router.core.log.histogram import BRIEF_S, WAITED_S, Histogram


def test_histogram_counts_each_value_below_the_first_bound_that_it_does_not_exceed() -> None:
    found = Histogram((0.1, 1.0))
    for value, times in ((0.05, 1), (0.1, 2), (0.5, 3), (7.0, 4)):
        found.observe(value, times)
    assert found.facts() == {"bounds": [0.1, 1.0], "within": [3, 6], "count": 10, "sum": 0.05 + 0.2 + 1.5 + 28.0}
    assert repr(found) == "<histogram of 10 values, 29.75 in all>"


def test_bounds_ascend() -> None:
    for bounds in (BRIEF_S, WAITED_S):
        assert list(bounds) == sorted(set(bounds))
