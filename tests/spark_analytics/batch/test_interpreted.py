"""Plans that are interpreted: no code is made of them, and their rows are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.session import ADAPTIVE, interpreted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(autouse=True)
def _planned_once_and_compiled(spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get(ADAPTIVE))
    spark.conf.set(ADAPTIVE, "false")
    with interpreted(spark, False):
        yield
    spark.conf.set(ADAPTIVE, before)


def _found(spark: SparkSession) -> tuple[bool, list[tuple[int, int]]]:
    """Return whether code is made of a plan, and its rows."""
    table = spark.range(6).selectExpr("id % 2 AS odd", "id").groupBy("odd").sum("id")
    plan = table._jdf.queryExecution().executedPlan().nodeName()
    return plan.startswith("WholeStageCodegen"), sorted((row[0], row[1]) for row in table.collect())


def test_plans_are_interpreted_only_within(spark: SparkSession) -> None:
    compiled = (True, [(0, 6), (1, 9)])
    assert _found(spark) == compiled
    with pytest.raises(ZeroDivisionError), interpreted(spark):
        assert _found(spark) == (False, compiled[1])
        with interpreted(spark, False):
            assert _found(spark) == compiled
        assert _found(spark)[0] is False
        raise ZeroDivisionError
    assert _found(spark) == compiled


def test_what_a_session_does_not_compile_stays_so(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    with interpreted(spark, False):
        assert not _found(spark)[0]
        with interpreted(spark):
            assert not _found(spark)[0]
