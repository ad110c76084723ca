"""The lines about links and those who join that a stream keeps, of which each batch makes the tables of links anew, and
finds claims about who was there."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_analytics.batch.judged_claims import IS_DOOR_NAMED
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.silver import Part
from spark_analytics.judgement.claim_sql import CHANGES, FIELDS
from spark_analytics.judgement.link_sql import PONG
from spark_analytics.judgement.presence_sql import DROPPED, HISTORY
from spark_analytics.judgement.schema import STATE_EVENTS

from .handovers import number_of

EVENTS = ("link_up", "link_down", "renewal")
"""The events that tell to whom a router had links, by their present and former keys."""
START = "array_max(filter(starts, start -> start <= seq))"
"""The first event of the file of a line, among those that `starts` gives."""
NOTED = ("renewal", HISTORY, DROPPED)
"""Those of `CHANGES` that a router writes down in the form of a service's event."""
_COLUMNS = ("router", "event", "seq", "t", "mono", "boot")
_OTHER_FIELDS = (
    "link", "clock_moves_s_max", "history_open_max", "groups_per_client_max",
    "uplink", "blocked", "removed", "revoked", "by_s",
)  # fmt: skip
_FIELDS = ", ".join(f"'{name}'" for name in (*FIELDS, *_OTHER_FIELDS))


def starts(spark: SparkSession, parts: Iterable[Part]) -> DataFrame:
    """Return the first events of these files by router: `router`, `starts`."""
    found: dict[str, list[int]] = {}
    for part in parts:
        found.setdefault(part.router, []).append(part.first_seq)
    rows = [(number_of(router), firsts) for router, firsts in found.items()]
    return F.broadcast(table_of(spark, rows, "router long, starts array<long>"))


def kept(others: DataFrame, starts: DataFrame) -> DataFrame:
    """Return the rows of the state's table `links` among new lines without a recipient: those of `CHANGES`, answers of
    neighbours, and of the other lines of a router about itself each that is the last of its file or before a start, as
    it may tell until when a link was up; and lines that name messages turned away. `starts`: of the new files."""
    order = Window.partitionBy("router", F.expr(START)).orderBy("seq")
    told = others.where(F.col("event").isin(*STATE_EVENTS)).join(starts, "router", "inner")
    told = told.withColumn("next", F.lead("event").over(order))
    told = told.where(F.col("event").isin(*CHANGES, PONG) | F.expr("next IS NULL OR next = 'start'"))
    both = told.drop("starts", "next").unionByName(others.where(F.col("event").isin(*NOTED)))
    fields = F.expr(f"map_filter(other.fields, (name, said) -> name IN ({_FIELDS}))")
    peer = F.create_map(F.lit("peer"), "other.peer")
    doors = others.where(IS_DOOR_NAMED).select(*_COLUMNS, peer.alias("fields"), "other.ids")
    found = both.select(*_COLUMNS, fields.alias("fields"), "other.ids").unionByName(doors)
    return found.select(*_COLUMNS, F.struct("fields", "ids").alias("other"))
