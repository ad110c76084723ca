"""Keep on disk tables from which several others are made, so that the plans of these begin there.

Spark examines the whole plan of a table at each step that is added to it. A plan that begins at a kept table is short,
which saves an audit of few lines half of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from spark_analytics.batch.session import from_java


class Kept:
    """Tables kept on disk until `forget`."""

    def __init__(self) -> None:
        self._tables: list[DataFrame] = []

    def __repr__(self) -> str:
        return f"<{len(self._tables)} kept tables>"

    def keep(self, table: DataFrame, level: StorageLevel = StorageLevel.DISK_ONLY) -> DataFrame:
        """Keep a table, which is computed once, when it is first used."""
        self._tables.append(table.persist(level))
        return _from_here(table)

    def forget(self) -> None:
        while self._tables:
            self._tables.pop().unpersist()


class CutOff(Kept):
    """Keeps tables without the plans that led to them: nested plans of a chain of kept tables outgrow memory."""

    def keep(self, table: DataFrame, level: StorageLevel = StorageLevel.DISK_ONLY) -> DataFrame:
        return cut_off(table)


def cut_off(table: DataFrame) -> DataFrame:
    """Return a table that is computed on first use. Its storage is freed with the last reference to it.

    A table that Spark knows to be empty, or to be a few given rows, stays so: what is made of it is planned with that
    knowledge.
    """

    def cut() -> DataFrame:
        plan = table._jdf.queryExecution().optimizedPlan()
        if plan.nodeName() == "LocalRelation":
            return _begun_by(table.sparkSession, plan)
        return _with_own_columns(table.localCheckpoint(eager=False))

    return _where_inside(cut) or table.localCheckpoint(eager=False)


def _from_here(table: DataFrame) -> DataFrame:
    """Return the kept table with a plan that begins at the kept data, if Spark's internal classes can be used."""

    def begun() -> DataFrame:
        return _begun_by(table.sparkSession, table._jdf.queryExecution().withCachedData())

    return _where_inside(begun) or table


def _with_own_columns(cut: DataFrame) -> DataFrame:
    """Return a table that was cut off without what Spark knows of its order, if that names columns that it has not.

    Spark takes the order from the optimized plan, where a union of which one part is empty has the columns of the
    other, and then refuses to join the table with what it was made of ("conflicting references").
    """
    plan, session = cut._jdf.queryExecution().analyzed(), cut.sparkSession
    if plan.missingInput().isEmpty():
        return cut
    return DataFrame(session._jsparkSession.internalCreateDataFrame(plan.rdd(), cut._jdf.schema(), False), session)


def _where_inside(make: Callable[[], DataFrame]) -> DataFrame | None:
    """Return what is made by Spark's internal classes; None where these cannot be used: in a session over Connect,
    which lacks them, and in versions in which they take other arguments."""
    try:
        return make()
    except Exception as error:
        if isinstance(error, AttributeError | TypeError) or from_java(error):
            return None
        raise


def _begun_by(session: SparkSession, plan: Any) -> DataFrame:
    """Return the table of this plan of Spark's."""
    classes = session._jvm.org.apache.spark.sql.classic  # type: ignore[union-attr]
    return DataFrame(classes.Dataset.ofRows(session._jsparkSession, plan), session)
