"""Rates are the difference of two answers of a node, over seconds; times come from the values between them."""

from __future__ import annotations

from math import inf

from router.overview.facts import Counted, Metrics, Waits
from router.overview.rates import RATE_S, WAIT_S, RateCounter, quantile

BOUNDS = (0.001, 0.01, 0.1)


def told(accepted: int, refused: int = 0, within: tuple[int, ...] = (0, 0, 0), count: int = 0) -> Metrics:
    messages = (("accepted", "", accepted), ("refused", "not-authorised", refused), ("refused", "blocked", refused))
    return Metrics(messages, seconds=Waits(delivery=Counted(BOUNDS, within, count)))


def test_rates_are_counted_over_ten_seconds_by_event() -> None:
    seen = RateCounter()
    assert set(seen.rates().per_s.values()) == {0.0} and set(seen.rates().p50_s.values()) == {None}
    for second in range(40):
        seen.add(told(5 * second if second < 20 else 100 + 8 * (second - 20), second), float(second))
    assert seen.rates().per_s == {
        "accepted": 8.0, "delivered": 0.0, "passed_on": 0.0, "refused": 2.0, "expired": 0.0, "dropped": 0.0,
    }  # fmt: skip


def test_answer_after_a_long_pause_is_compared_with_the_one_before_it() -> None:
    seen = RateCounter()
    seen.add(told(0), 0.0)
    seen.add(told(600), 10 * RATE_S)
    assert seen.rates().per_s["accepted"] == 6.0


def test_node_that_started_again_begins_anew() -> None:
    seen = RateCounter()
    for second, accepted in enumerate((100, 200, 3, 4)):
        seen.add(told(accepted), float(second))
    assert seen.rates().per_s["accepted"] == 1.0


def test_share_of_values_lies_at_or_below_a_bound_of_those_that_came_between() -> None:
    before, after = Counted(BOUNDS, (50, 50, 50), 50), Counted(BOUNDS, (50, 149, 149), 151)
    assert quantile(before, after, 0.5) == 0.01
    assert quantile(before, after, 0.99) == inf, "one lies above all bounds"
    assert quantile(after, after, 0.5) is None, "none came"
    assert quantile(Counted(), after, 0.2) == 0.001, "of an answer with other bounds nothing is taken away"


def test_times_are_those_of_the_last_minute() -> None:
    seen = RateCounter()
    for second, within in ((0.0, (0, 0, 0)), (1.0, (0, 0, 9)), (WAIT_S + 1, (0, 0, 9)), (WAIT_S + 2, (1, 1, 10))):
        seen.add(told(0, within=within, count=within[2]), second)
    assert (seen.rates().p50_s["delivery"], seen.rates().p99_s["commit"]) == (0.001, None)
