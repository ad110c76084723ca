"""Check that the lines of signed files match their footers: the number of lines, the number of messages of each event,
the earliest and the latest time, and that each event number stands in exactly one line."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from router.audit.database import Database
from spark_analytics.judgement.chain import Seal, Summed, fits_lines
from spark_analytics.judgement.schema import COUNT_MAX

_SUMS = """
SELECT file, event, count(*) AS lines, coalesce(sum(count), 0)::BIGINT AS messages, sum(numbers)::BIGINT AS numbers,
    min(coalesce(t, 0)) AS min_t, max(coalesce(t, 0)) AS max_t,
    bit_xor(xor(hash(seq::UBIGINT + $key), hash(seq::UBIGINT + numbers::UBIGINT + $key))) AS marks
FROM (
    SELECT file, event, count, seq, t,
        CASE WHEN event = 'accepted' OR recipient IS NULL THEN greatest(0, at_most(n, $most)) ELSE 1 END AS numbers
    FROM events
)
GROUP BY file, event
"""
"""Sums by file and event. An event number that begins one line and follows another cancels out of `marks`; the rest
shows whether the lines are side by side (`spark_analytics/batch/fingerprint.py`)."""


def contradicted(database: Database, seals: Iterable[Seal], numbers: Mapping[str, int]) -> list[str]:
    """Return the files whose lines do not match their footers. `numbers`: the numbers of the files that were read, by
    path."""
    key = secrets.randbits(62)
    sums: dict[int, list[Summed]] = {}
    for row in database.rows(_SUMS, {"key": key, "most": COUNT_MAX}):
        sums.setdefault(row.pop("file"), []).append(Summed(**row))
    kept = [seal for seal in seals if seal.is_kept and seal.path in numbers]
    ends = {number for seal in kept for number in (seal.first_seq, seal.last_seq + 1)}
    marks = dict(_marks(database, sorted(ends), key))
    return [
        seal.path
        for seal in kept
        if not fits_lines(seal, sums.get(numbers[seal.path], ()), marks[seal.first_seq] ^ marks[seal.last_seq + 1])
    ]


def _marks(database: Database, numbers: list[int], key: int) -> Iterable[tuple[int, int]]:
    statement = "SELECT n, hash(n::UBIGINT + $key) AS mark FROM (SELECT unnest($numbers) AS n)"
    found = database.rows(statement, {"key": key, "numbers": numbers})
    return ((row["n"], row["mark"]) for row in found)
