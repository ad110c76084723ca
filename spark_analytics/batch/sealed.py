"""Check that the lines of signed files match their footers: by sums, and file by file where these differ.

Each file gets a random number. The sums over all files of a router, each weighted by its number, match the sums over
all footers only if each file matches its own footer, except by chance, once in 2^62.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.fingerprint import mark, side_by_side
from spark_analytics.judgement.chain import Seal, Summed, fits_lines, fits_times
from spark_analytics.judgement.claim_sql import IS_UNEVEN

from .findings import NUMBERS

Row = dict[str, Any]
Rows = list[Row]
_WORD = 1 << 64


def numbers_of(seals: Iterable[Seal], read: Iterable[str]) -> dict[str, int]:
    """Draw a random odd number for each signed file of those that are read, by path."""
    among = frozenset(read)
    return {one.path: secrets.randbits(62) | 1 for one in seals if one.is_kept and one.path in among}


def contradicted(
    laid: DataFrame, words: Rows, times: Sequence[Row], seals: Iterable[Seal], numbers: Mapping[str, int]
) -> list[str]:
    """Return the files whose lines do not match their footers. `laid`: the layout; `words`: rows of `findings.tally`;
    `times`: rows of `stretches`; `numbers`: the numbers of the files that were read, by path."""
    by_router: dict[str, list[Seal]] = defaultdict(list)
    for seal in seals:
        if seal.is_kept and seal.path in numbers:
            by_router[seal.router].append(seal)
    told: dict[str, Rows] = defaultdict(list)
    for row in words:
        told[row["router"]].append(row)
    late = _at_other_times(times, (one for found in by_router.values() for one in found), numbers)
    at_odds = [found for router, found in by_router.items() if not _fit(told[router], found, numbers)]
    doubted = [seal for found in at_odds for seal in found]
    return [*late, *(_looked_for(laid, doubted, numbers) if doubted else ())]


def stretches(laid: DataFrame) -> Rows:
    """Return the times of each file's lines in each boot: by `router` (its number), `seal` (null for a tail) and `boot`
    the earliest and the latest (`min_t`, `max_t`; 0 for a line without a time), and how far the wall clock is ahead of
    the monotonic clock, at least and at most (`min_apart_ns`, `max_apart_ns`); the first event, `seq`; and of those
    with a monotonic time the first and the last (`first_seq`, `first_mono`, `last_seq`, `last_mono`), and whether each
    must be looked at (`claim_sql.IS_UNEVEN`)."""
    t, apart_ns = F.expr("coalesce(t, 0L)"), F.col("t") - F.col("mono")
    sums = laid.groupBy("router", "seal", "boot").agg(
        F.min(t).alias("min_t"),
        F.max(t).alias("max_t"),
        F.min(apart_ns).alias("min_apart_ns"),
        F.max(apart_ns).alias("max_apart_ns"),
        F.min("seq").alias("seq"),
        F.min(F.when(F.col("mono").isNotNull(), F.col("seq"))).alias("first_seq"),
        F.max(F.when(F.col("mono").isNotNull(), F.col("seq"))).alias("last_seq"),
        F.expr("min_by(mono, CASE WHEN mono IS NOT NULL THEN seq END)").alias("first_mono"),
        F.expr("max_by(mono, CASE WHEN mono IS NOT NULL THEN seq END)").alias("last_mono"),
        F.min("mono").alias("min_mono"),
        F.max("mono").alias("max_mono"),
    )
    found = sums.withColumn("is_uneven", F.expr(IS_UNEVEN)).drop("min_mono", "max_mono")
    return [row.asDict() for row in found.collect()]


def _at_other_times(times: Sequence[Row], seals: Iterable[Seal], numbers: Mapping[str, int]) -> list[str]:
    """Return the files of which the footers tell other times than the lines."""
    spans: dict[int, list[Summed]] = defaultdict(list)
    for row in times:
        spans[row["seal"]].append(Summed("", 0, 0, 0, 0, row["min_t"], row["max_t"]))
    return [seal.path for seal in seals if not fits_times(seal, spans[numbers[seal.path]])]


def _fit(words: Rows, seals: Iterable[Seal], numbers: Mapping[str, int]) -> bool:
    """Whether all lines of a router, taken together, match its footers."""
    there: dict[str, int] = defaultdict(int)
    for row in words:
        there["events"] += row["numbers"] or 0
        there["marks"] ^= row["number_marks"] or 0
        there["lines"] += row["sealed_lines"] or 0
        there[f"count {row['event']}"] += row["sealed_count"] or 0
    said: dict[str, int] = defaultdict(int)
    for seal in seals:
        said["events"] += seal.last_seq - seal.first_seq + 1
        said["marks"] ^= mark(seal.first_seq) ^ mark(seal.last_seq + 1)
        said["lines"] += numbers[seal.path] * seal.lines
        for event, count in seal.counts:
            said[f"count {event}"] += numbers[seal.path] * count
    return all((there[name] - said[name]) % _WORD == 0 for name in {*there, *said})


def _looked_for(laid: DataFrame, seals: Iterable[Seal], numbers: Mapping[str, int]) -> list[str]:
    by_number = {numbers[seal.path]: seal for seal in seals}
    lines = laid.where(F.col("seal").isin([*by_number])).withColumn("takes", F.expr(NUMBERS))
    sums = lines.groupBy("seal", "event").agg(
        F.count("*").alias("lines"),
        F.coalesce(F.sum("count"), F.lit(0)).alias("count"),
        F.coalesce(F.sum("takes"), F.lit(0)).alias("numbers"),
        side_by_side("seq", "seq + takes").alias("marks"),
    )
    found: dict[int, list[Summed]] = defaultdict(list)
    for row in sums.collect():
        found[row.seal].append(Summed(row.event, row.lines, row["count"], row.numbers, row.marks or 0))
    return [seal.path for number, seal in by_number.items() if not fits(seal, found[number])]


def fits(seal: Seal, sums: Iterable[Summed]) -> bool:
    """Whether these are the lines that the footer describes."""
    return fits_lines(seal, sums, mark(seal.first_seq) ^ mark(seal.last_seq + 1))
