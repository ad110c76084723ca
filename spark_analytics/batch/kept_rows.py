"""Look whether what was written is there.

Hadoop's committer finds the files of its tasks by listing. In an object store that lists late it leaves out those that
it does not see, and reports no error, or fails because it does not see its own directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F

from .session import from_java

_CAUSE_MAX = 200
"""Most characters of what Hadoop said that a sentence repeats."""


class NotKept(Exception):
    """A file system has less than was written to it; the text says what, where, and what to do."""


def is_here(path: str) -> bool:
    """Whether the path is of this machine's own file system, which lists at once what was written."""
    return path.startswith("file:") or "://" not in path


def write_checked(rows: DataFrame, place: str, write: Callable[[DataFrame], None]) -> None:
    """Write Parquet to this place by `write`, and count its rows there; raise `NotKept`. On this machine, and over
    Connect, they are not counted."""
    if is_here(place) or not hasattr(rows, "_jdf"):
        write(rows)
        return
    written, what = Observation(), f"the table at {place}"
    with _seen(what, place):
        write(rows.observe(written, F.count(F.lit(1)).alias("rows")))
    found, wanted = _count(rows.sparkSession.read.schema(rows.schema), place), written.get.get("rows", 0)
    if found != wanted:
        raise NotKept(_sentence(what, f"{wanted:,} rows were written, and {found:,} are there"))


def write_text_checked(spark: SparkSession, place: str, text: str, write: Callable[[], None]) -> None:
    """Write a text as the only file at this place by `write`, and read it there; raise `NotKept`. On this machine it is
    not read."""
    if is_here(place):
        write()
        return
    what = f"the text at {place}"
    with _seen(what, place):
        write()
    try:
        found = [row.value for row in spark.read.text(place, wholetext=True).collect()]
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        found = []
    if found != [f"{text}\n"]:
        raise NotKept(_sentence(what, "it is not there as it was written"))


def _count(reader: DataFrameReader, place: str) -> int:
    try:
        return reader.parquet(place).count()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return 0


@contextmanager
def _seen(what: str, place: str) -> Iterator[None]:
    """Turn the error of a write that misses its own files below this place into `NotKept`."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, PySparkException) or from_java(error)):
            raise
        missed = [cause for cause in _causes(error) if "FileNotFoundException" in cause and place in cause]
        if not missed:
            raise
        raise NotKept(_sentence(what, missed[-1].splitlines()[0][:_CAUSE_MAX])) from None


def _causes(error: Exception) -> Iterator[str]:
    """Yield what Java said, from the outermost error to the innermost."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        yield str(java.toString())
        java = java.getCause()


def _sentence(what: str, why: str) -> str:
    return (
        f"{what} is not whole ({why}): the file system lists late what is new in it, or lost it. Use one that lists at"
        " once, as S3 does; what was written meanwhile is unfinished, so run it again."
    )
