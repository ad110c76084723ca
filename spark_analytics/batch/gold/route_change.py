"""`route_change`, key (router, seq): routes learned and lost, groups joined and left, links up and down, adverts.

A line may stand for several `changes`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.batch.span import Span
from spark_analytics.judgement.schema import ROUTE_EVENTS


def route_change(rows: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    fields = {name: F.expr(f"other.fields['{name}']") for name in ("destination", "group", "peer", "subscriber")}
    is_local = F.expr("other.fields['standing'] = 'local'")  # apps and commands come and go as they are used
    fields["peer"] = F.when(is_local, F.lit(None)).otherwise(fields["peer"])
    subject = F.coalesce(*fields.values())
    return named(rows.where(F.col("event").isin(*ROUTE_EVENTS)), routers).select(
        "router",
        "seq",
        "t",
        span.minute().alias("minute"),
        "event",
        subject.alias("subject"),
        F.expr("other.fields['neighbour']").alias("neighbour"),
        F.coalesce("count", F.lit(1).cast("bigint")).alias("changes"),
    )
