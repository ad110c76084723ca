"""Keeps tables that several others are made of: on disk, and as the beginning of their plans.

Spark looks at the whole plan of a table with each step that is added to it. A plan that begins with what is kept is
short, which saves an audit of few lines half of its time.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_analytics.batch.session import from_java


class Kept:
    """What is kept, until `forget`."""

    def __init__(self) -> None:
        self._tables: list[DataFrame] = []

    def __repr__(self) -> str:
        return f"<{len(self._tables)} kept tables>"

    def keep(self, table: DataFrame, level: StorageLevel = StorageLevel.DISK_ONLY) -> DataFrame:
        """The same table; made once, when it is first asked for."""
        self._tables.append(table.persist(level))
        return _from_here(table)

    def forget(self) -> None:
        while self._tables:
            self._tables.pop().unpersist()


class CutOff(Kept):
    """Keeps a table without the plan that led to it: plans of plans of a chain of kept tables grow beyond memory."""

    def keep(self, table: DataFrame, level: StorageLevel = StorageLevel.DISK_ONLY) -> DataFrame:
        return cut_off(table)


def cut_off(table: DataFrame) -> DataFrame:
    """The table, computed when it is first used. What it takes is given back when nobody holds it any more."""
    return table.localCheckpoint(eager=False)


def _from_here(table: DataFrame) -> DataFrame:
    """Return the kept table with a plan that begins at what is kept.

    Return the table itself where the classes behind it cannot be used: in a session over Connect, which does not have
    them, and in a version of Spark in which they take other arguments.
    """
    try:
        session = table.sparkSession
        plan = table._jdf.queryExecution().withCachedData()
        classes = session._jvm.org.apache.spark.sql.classic  # type: ignore[union-attr]
        return DataFrame(classes.Dataset.ofRows(session._jsparkSession, plan), session)
    except Exception as error:
        if isinstance(error, AttributeError | TypeError) or from_java(error):
            return table
        raise
