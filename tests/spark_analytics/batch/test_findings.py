"""What the tally of a batch's lines says of services, by which a stream knows that it cannot judge them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.findings import is_owing, tally
from spark_analytics.batch.gold.tables import NotIncremental
from spark_analytics.batch.span import Span
from spark_analytics.stream.ledger import merged_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUT = (
    "router long, parcel long, event string, seq long, t long, recipient string, reason string, count long,"
    " more_ranges array<array<long>>, accepted struct<n:long>, seal long,"
    " other struct<signer:string,fields:map<string,string>,missing:long>"
)
OWED = {"service": "pubsub", "handover": "owed"}


@pytest.mark.xdist_group("spark")
def test_the_tally_counts_what_services_note_and_what_they_owe(spark: SparkSession) -> None:
    others = [
        ("kept", ("key", OWED, 1)),
        ("kept", ("key", {"service": "pubsub"}, 1)),
        ("kept", (None, OWED, 1)),
        ("config", (None, {"ttl_s_max": "9"}, 1)),
        ("odd", (None, None, 1)),
    ]
    lines = [(1, seq, event, seq, 1, None, None, 1, None, None, None, one) for seq, (event, one) in enumerate(others)]
    words = [row.asDict() for row in tally(spark.createDataFrame(lines, LAYOUT), Span(9)).collect()]
    assert {row["event"]: (row["lines"], row["noted"], row["handovers"]) for row in words} == {
        "kept": (3, 3, 1), "config": (1, 0, 0), "odd": (1, 0, 0),
    }  # fmt: skip
    with pytest.raises(NotIncremental, match="a service tells what it owes"):
        is_owing(merged_words(words), is_whole=False)
    assert is_owing(words, is_whole=True)
    assert not is_owing([row for row in words if row["event"] != "kept"], is_whole=False)
