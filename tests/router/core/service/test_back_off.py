"""The pauses between attempts: doubled, limited, and random in their upper half."""

from __future__ import annotations

from router.core.service.back_off import BackOff

BACK_OFF = BackOff(pause_s_min=1, pause_s_max=10)


def test_back_off_doubles_its_pauses_up_to_the_longest() -> None:
    pauses = [BACK_OFF.pause_s(failures, draw=1.0) for failures in (1, 2, 3, 4, 5, 10_000)]
    assert pauses == [1, 2, 4, 8, 10, 10]


def test_back_off_draws_from_the_upper_half() -> None:
    assert [BACK_OFF.pause_s(failures, draw=0.0) for failures in (1, 2, 10_000)] == [0.5, 1, 5]
