"""Axes, scales and marks of the page's pictures."""

from __future__ import annotations

import re

import pytest

from spark_analytics.report.page.charts import Decades, Lane, Linear, TimeAxis, bars, lanes, line, spread, time_ticks
from spark_analytics.report.page.queues import limit_label_y

NOON = 29_555_280  # 12 March 2026, 12:00 UTC, in minutes since 1970


def test_an_axis_holds_every_window_and_never_more_than_240() -> None:
    axis = TimeAxis.over([NOON + 50, NOON, NOON + 30], 10)
    assert (axis.start, axis.step, axis.count, axis.end) == (NOON, 10, 6, NOON + 60)
    assert [axis.place(NOON + each) for each in (0, 9, 10, 50)] == [0, 0, 1, 5]
    assert axis.percent(NOON + 15) == 25
    assert axis.window(5) == "12 Mar, 12:50 to 13:00"
    wide = TimeAxis.over([0, 10**9], 1)
    assert wide.count <= 240
    assert wide.place(10**9) == wide.count - 1
    assert TimeAxis.over([], 10).count == 0


def test_ticks_stand_at_round_times_and_name_the_day_at_midnight() -> None:
    axis = TimeAxis.over(range(NOON - 120, NOON + 840, 10), 10)
    assert [(words, stays) for _, words, stays in axis.ticks()] == [
        ("10:00", True), ("12:00", False), ("14:00", True), ("16:00", False), ("18:00", True), ("20:00", False),
        ("22:00", True), ("13 Mar", False), ("02:00", True),
    ]  # fmt: skip
    assert len(axis.ticks(4)) <= 5
    assert "UTC, from 12 Mar 2026, 10:00" in time_ticks(axis, 100)
    years = TimeAxis.over([0, 10**8], 1440)
    assert 2 <= len(years.ticks()) <= 9


def test_a_linear_scale_begins_at_0_and_ends_at_a_round_number() -> None:
    scale = Linear(8_194, 200)
    assert scale.ticks() == [(200, "0"), (100, "5,000"), (0, "10,000")]
    assert scale.at(5_000) == 100
    assert scale.at(99_999) == 0
    assert [words for _, words in Linear(0, 200).ticks()] == ["0", "1"]


def test_a_logarithmic_scale_gives_every_decade_the_same_height() -> None:
    scale = Decades(0.003, 4.2, 100)
    assert [(round(y, 6), words) for y, words in scale.ticks()] == [
        (100, "1 ms"), (75, "10 ms"), (50, "100 ms"), (25, "1 s"), (0, "10 s"),
    ]  # fmt: skip
    assert scale.fraction(0) == 0
    assert scale.fraction(1e9) == 1
    assert [words for _, words in Decades(30, 700, 100).ticks()] == ["10 s", "100 s", "1,000 s"]


def test_bars_and_lines_leave_out_what_is_not_there() -> None:
    assert bars([10, 10], [10, 10], "s-acked") is None
    drawn = bars([4, 10, 0], [10, 10, 10], "s-acked")
    assert drawn is not None
    assert drawn.count("M") == 2
    broken = line([1, None, 3, 4], "l-p50")
    assert broken is not None
    assert re.findall('d="[^"]*" class="[^"]*"', broken) == [
        'd="M25 3L35 4" class="line l-p50"', 'd="M5 1h0" class="line l-p50 dot"',
    ]  # fmt: skip
    assert line([None, None], "l-p50") is None


def test_a_single_loss_beside_many_is_still_drawn_high_enough_to_see() -> None:
    axis = TimeAxis.over(range(NOON, NOON + 30, 10), 10)
    drawn = lanes(axis, [Lane("unaccounted", [0, 1, 100_000], "s-unaccounted", "lost")], "losses", height=30)
    tops = [float(y) for y in re.findall(r"V([\d.]+)h", drawn)]
    assert tops == [27.5, 2]
    assert "12 Mar, 12:10 to 12:20: 1 lost" in drawn
    assert "<b>100,001</b>" in drawn
    assert "peak 100,000" in drawn


def test_labels_are_moved_apart_in_their_order() -> None:
    assert spread([10, 12, 50, 11], 14, 190) == [10, 38, 52, 24]
    assert spread([188, 190, 60, 189], 14, 190) == [162, 190, 60, 176], "none lies over the time axis below"


@pytest.mark.parametrize("y", [0, 8, 12, 20, 27.9, 28, 90])
def test_the_limit_s_label_lies_over_neither_its_line_nor_the_other_label(y: float) -> None:
    at = limit_label_y(y)
    assert at - 10 >= 14, "the baseline of the other label is at 10, and a line of text has 14 pixels"
    assert at <= y - 4 or at - 12 >= y
