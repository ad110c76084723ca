"""What late lines change of closed parcels: rows that are added to the sums of earlier batches, some with less than
none."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch import claim_findings
from spark_analytics.batch.gold import delivery, flow, hop_latency, pieces, queue_minute
from spark_analytics.batch.gold.kept import cut_off
from spark_analytics.batch.gold.tables import Tables

from . import window_sums
from .state import COUNTS, added_up
from .stream_tables import without_holes


def differences(late: DataFrame, before: Tables, after: Tables) -> dict[str, DataFrame]:
    """Return the differences of the summed tables, and the rows of others. `before`, `after`: the tables of the parcels
    without the late lines, and with them."""
    less = before.unit_windows.withColumns({name: -F.col(name) for name in COUNTS})
    units = without_holes(after.unit_windows.unionByName(less))
    ranges = pieces.outward(late, after.has_more)
    found = cut_off(pieces.pieces(ranges, after.accepted, after.routers, after.span))
    less = flow.readers(before.units, before.accepted)
    less = less.withColumns({name: -F.col(name) for name in ("owed", "delivered", "acked")})
    readers = flow.readers(after.units, after.accepted).unionByName(less)
    by_minute = {
        "units": cut_off(added_up("units", units)),
        "waits": cut_off(hop_latency.waits(found)),
        "ended": cut_off(queue_minute.ended(found)),
    }
    return {
        "readers": cut_off(added_up("readers", readers)),
        "written": cut_off(flow.written(found, after.accepted, after.span)),
        **by_minute,
        **window_sums.of_closed(by_minute, None, 1),
        "closed": late,
        "delivery": delivery.delivery(after.units, after.accepted, after.routers),
        "gone": cut_off(claim_findings.ended_on_the_way(late, after.accepted, after.routers)),
    }
