"""Slopes by value: a line has its slope and no error, noise has no slope that counts, and what grows is told."""

from __future__ import annotations

from random import Random

import pytest

from scale.soak import Series, bins, rows, slope

MINUTES = range(0, 7200, 60)


def test_a_line_has_its_slope_and_no_error() -> None:
    found = slope([(at, 5 + at / 36) for at in MINUTES])
    assert found.per_hour == pytest.approx(100) and found.error < 1e-6 and found.is_distinct


def test_noise_does_not_grow() -> None:
    chance = Random(1)
    found = slope([(at, chance.gauss(100, 10)) for at in MINUTES])
    assert not found.is_distinct and found.mean == pytest.approx(100, abs=5)


def test_growth_below_the_noise_of_one_sample_is_seen() -> None:
    chance = Random(4)
    found = slope([(at, chance.gauss(100, 10) + at / 180) for at in MINUTES])
    assert found.is_distinct and found.per_hour == pytest.approx(20, abs=4 * found.error)


def test_the_error_is_that_of_the_textbook() -> None:
    found = slope([(0, 1.0), (3600, 2.0), (7200, 2.0), (10800, 4.0)])
    assert found.per_hour == pytest.approx(0.9)
    assert found.error == pytest.approx((0.7 / 2 / 5) ** 0.5)


def test_points_are_gathered_by_their_bin() -> None:
    assert bins([(0, 1.0), (30, 3.0), (61, 5.0)], 60) == [(15, 2.0), (61, 5.0)]


def test_the_beginning_is_left_out() -> None:
    series: Series = {
        ("core-1", "memory"): [(at, max(0.0, 600.0 - at)) for at in MINUTES],
        ("core-1", "lag"): [(0.0, 1.0)],
    }
    [(node, figure, found)] = rows(series, 600)
    assert (node, figure, found.per_hour) == ("core-1", "memory", 0)
