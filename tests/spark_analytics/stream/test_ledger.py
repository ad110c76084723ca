"""The rows of several batches are merged into those that count."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_analytics.stream.ledger import empty, ends_ns, from_frame, joined, merged_words, to_frame

pytestmark = pytest.mark.xdist_group("spark")


ROW = {"router": "a", "event": "acked", "reason": None, "at_door": False, "lines": 1, "count": 2, "within": 2,
       "future": 0, "noted": 1, "handovers": 1, "latest_t": None}  # fmt: skip


def _word(first: int, last: int, **more: Any) -> dict[str, Any]:
    ends = {"more": 1, "first_seq": first, "first_t": first * 10, "last_seq": last, "last_t": last * 10}
    return ROW | ends | more


def test_a_tally_of_several_batches_is_that_of_all_their_lines() -> None:
    other, turned = _word(1, 1, event="delivered"), _word(4, 4, at_door=True)
    [both, alone, apart] = merged_words([_word(5, 9, latest_t=7), _word(2, 3, future=1, latest_t=9), other, turned])
    twice = dict.fromkeys(("lines", "more", "noted", "handovers"), 2) | {"count": 4, "within": 4}
    assert both == _word(2, 9, future=1, latest_t=9) | twice | {"first_t": 20, "last_t": 90}
    assert (alone, apart) == (other, turned)


def test_the_ends_of_logs_are_those_before_the_batch() -> None:
    before = [_word(1, 9) | {"event": "acked"}, _word(2, 7), _word(1, 5) | {"router": "b"}]
    assert ends_ns(before, [_word(10, 11)]) == [90]


def test_rows_are_kept_as_they_are(spark: SparkSession) -> None:
    new = {"facts": [{"path": "/é", "head": "\x00ÿ\n", "size": 1 << 60}], "words": [_word(5, 9), _word(2, 3)]}
    assert from_frame(to_frame(spark, new)) == joined(empty(), new)
