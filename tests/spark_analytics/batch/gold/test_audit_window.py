"""The units of a minute are the sums of all rows about it, of which a late file may take some back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold.audit_window import audit_window
from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement.schema import GRACE_NS, STATES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
UNITS = "router long, minute long, is_within boolean, owed long, due_ns long, delivered long, expired long"
ROUTERS = "number long, router string, is_whole boolean, end_ns long"


def test_rows_that_take_units_back_count_too(spark: SparkSession) -> None:
    """Three units of the fifth minute had expired, until a late file told that one of them was delivered; of the sixth
    nothing is left. A stray end owes nothing, so when it was due does not matter."""
    units = [
        (1, 5, True, 3, 10, 0, 3),
        (1, 5, True, 0, 10, 1, -1),
        (1, 6, True, 2, 10, 0, 2),
        (1, 6, True, -2, 10, 0, -2),
        (1, 5, True, 0, 99, 0, 0),
        (1, 5, False, 7, 99, 7, 0),
    ]
    table = table_of(spark, units, UNITS)
    others = {name: table["owed"] * 0 for name in STATES if name not in table.columns}
    routers = table_of(spark, [(1, "a", True, 10 + GRACE_NS)], ROUTERS)
    [row] = rows(audit_window(table.withColumns(others), routers))
    told = {name: row[name] for name in ("router", "minute", "owed", "delivered", "expired", "judged")}
    assert told == {"router": "a", "minute": 5, "owed": 3, "delivered": 1, "expired": 2, "judged": True}
