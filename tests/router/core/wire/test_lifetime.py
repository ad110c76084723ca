"""Expiries in minutes since 2020, deadlines, and the clamp of the ttl (R-A2, R-A3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.lifetime import EPOCH_S, UINT32_MAX, deadline_s, expiry_min, expiry_s


def test_the_epoch_is_2020() -> None:
    assert expiry_s(0) == EPOCH_S == 1_577_836_800
    assert expiry_s(1) == EPOCH_S + 60


@pytest.mark.parametrize(("after_s", "minutes"), [(-100, 0), (0, 0), (1, 1), (59.5, 1), (60, 1), (60.5, 2), (61, 2)])
def test_an_expiry_is_rounded_up(after_s: float, minutes: int) -> None:
    assert expiry_min(EPOCH_S + after_s) == minutes


def test_an_expiry_fits_its_32_bits() -> None:
    assert expiry_min(1 << 60) == UINT32_MAX


@given(st.integers(EPOCH_S, EPOCH_S + (1 << 36)))
def test_the_rounded_minute_is_the_first_that_lives_so_long(unix_s: int) -> None:
    minutes = expiry_min(unix_s)
    assert expiry_s(minutes) >= unix_s > expiry_s(minutes - 1)


@pytest.mark.parametrize(
    ("ttl_s", "ttl_s_max", "deadline"),
    [(10, 100, 10), (100, 10, 10), (0, 100, 0), (1000, 10_000, 600)],
)
def test_the_sooner_of_ttl_and_expiry_ends_it(ttl_s: int, ttl_s_max: int, deadline: int) -> None:
    assert deadline_s(EPOCH_S, ttl_s, 10, ttl_s_max) == EPOCH_S + deadline
