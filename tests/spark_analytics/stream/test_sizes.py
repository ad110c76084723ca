"""How a batch is planned, by how much it reads."""

from __future__ import annotations

from spark_analytics.stream.sizes import (
    INTERPRETED_BYTES,
    MESSAGES_AT_HAND,
    MESSAGES_FEW,
    ROW_BYTES,
    has_few_lines,
    has_few_sums,
    is_told_by_few,
)


def test_only_batches_of_few_rows_are_interpreted() -> None:
    assert has_few_lines(0, 0) and has_few_lines(INTERPRETED_BYTES - 1, 0)
    assert not has_few_lines(INTERPRETED_BYTES, 0)
    assert not has_few_lines(0, INTERPRETED_BYTES // ROW_BYTES)


def test_sums_of_many_messages_are_read_by_compiled_plans() -> None:
    assert has_few_sums(MESSAGES_FEW - 1) and not has_few_sums(MESSAGES_FEW)
    assert is_told_by_few(MESSAGES_AT_HAND - 1) and not is_told_by_few(MESSAGES_AT_HAND)
