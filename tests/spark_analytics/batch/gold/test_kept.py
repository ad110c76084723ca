"""Kept tables begin the plans made of them; a Spark that does not allow this works without."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold.kept import Kept, _from_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def test_a_kept_table_begins_the_plan(spark: SparkSession) -> None:
    kept = Kept()
    table = kept.keep(spark.range(100).selectExpr("id * 2 as id").where("id > 10"))
    assert table._jdf.queryExecution().logical().nodeName().startswith("InMemoryRelation")
    assert table.count() == 94
    kept.forget()


def test_other_arguments_or_no_classes_leave_the_table(spark: SparkSession) -> None:
    table = spark.range(3)
    plan = table._jdf.queryExecution().logical()
    other_arguments = SimpleNamespace(
        sparkSession=SimpleNamespace(_jvm=spark._jvm, _jsparkSession=plan), _jdf=table._jdf
    )
    no_classes = SimpleNamespace(sparkSession=SimpleNamespace(_jvm=None), _jdf=None)
    for each in (other_arguments, no_classes):
        assert _from_here(each) is each  # type: ignore[comparison-overlap, arg-type]


def test_another_error_is_raised(spark: SparkSession) -> None:
    class Broken:
        @property
        def sparkSession(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _from_here(Broken())  # type: ignore[arg-type]
