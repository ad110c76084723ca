"""Whether the lines of a router match its footers is found by sums over all its files, made once."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import DataFrame
from samples.audit_logs import A

from spark_analytics.batch import sealed
from spark_analytics.batch.fingerprint import mark
from spark_analytics.judgement.chain import Seal

NO_LAYOUT = cast(DataFrame, None)
"""Its lines are read of a router whose sums differ."""
FILES, EVENTS = 200, 10


def test_the_footers_of_a_router_are_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router closes thousands of files in a year: their sums are not made again for each of them."""
    key, marked = A.public.hex(), list[int]()

    def counted(number: int) -> int:
        marked.append(number)
        return mark(number)

    monkeypatch.setattr(sealed, "mark", counted)
    files = [(number * EVENTS + 1, (number + 1) * EVENTS, f"{number}.jsonl") for number in range(FILES)]
    seals = [Seal(key, first, last, None, "", 1, True, path) for first, last, path in files]
    ends = mark(1) ^ mark(FILES * EVENTS + 1)
    row = {"router": key, "event": "start", "numbers": FILES * EVENTS, "number_marks": ends}
    words = [row | {"sealed_lines": 0, "sealed_count": 0}]
    numbers = sealed.numbers_of(seals, [seal.path for seal in seals])
    assert sealed.contradicted(NO_LAYOUT, words, [], seals, numbers) == []
    assert len(marked) == 2 * FILES
