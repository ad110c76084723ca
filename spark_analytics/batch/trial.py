"""Try the place of the tables before an audit writes any: write a table of one row there, read it, remove it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_analytics.batch.kept_rows import NotKept, is_here
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.session import from_java
from spark_analytics.batch.writer import Writer

PACKAGES: Mapping[str, Mapping[str, str]] = {
    "delta": {"4.1": "io.delta:delta-spark_4.1_2.13:4.4.0", "4.2": "io.delta:delta-spark_2.13:4.4.0"},
    "iceberg": {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
}
"""For each format the package that has it, by the version of Spark that it is for."""
_NAMES = {"delta": "Delta", "iceberg": "Iceberg"}
_NO_SCHEMA = ("SCHEMA_NOT_FOUND", "UNRESOLVED_SCHEMA", "NO_SUCH_NAMESPACE", "NoSuchNamespace")
_NO_CATALOG = ("CATALOG_NOT_FOUND", "CatalogNotFound", "_LEGACY_ERROR_TEMP_1054")
_CAUSE_MAX = 300
"""Most characters of what Spark said that a sentence repeats."""


class CannotWrite(Exception):
    """Tables of this format cannot be written and read at this place; the text gives the cause and the remedy."""


def try_place(spark: SparkSession, writer: Writer) -> None:
    """Write a table of one row with this writer, read it, and remove it again. Raise `CannotWrite`.

    Parquet below a path of this machine is not tried: it needs neither a package nor a catalog.
    """
    if writer.format == "parquet" and writer.schema is None and is_here(writer.path or ""):
        return
    try_schema(spark, writer)
    name = f"_trial_{uuid.uuid4().hex}"
    row = table_of(spark, [(1, "tried")], "number long, text string").coalesce(1)
    try:
        writer.write(name, row)
        read = [tuple(one) for one in writer.read(spark, name, row.schema).collect()]
    except NotKept as error:
        raise CannotWrite(f"no table was written: a table of one row was tried, and {error}") from None
    except Exception as error:
        if not (isinstance(error, PySparkException) or from_java(error)):
            raise
        raise CannotWrite(sentence(writer, spark.version, _cause(error))) from None
    finally:
        _remove(spark, writer, name)
    if read != [(1, "tried")]:
        raise CannotWrite(sentence(writer, spark.version, f"a table of one row was read back as {len(read)} rows"))


def try_schema(spark: SparkSession, writer: Writer) -> None:
    """Raise `CannotWrite` if a catalog that the session has knows no such schema: some make it with the first table, as
    Iceberg's catalog in files does."""
    if writer.schema is None:
        return
    if writer.catalog and spark.conf.get(f"spark.sql.catalog.{writer.catalog}", None) is None:
        return  # Spark's own, or none: the trial says what it is.
    try:
        is_there = spark.catalog.databaseExists(writer.place(""))
    except Exception as error:
        if not (isinstance(error, PySparkException) or from_java(error)):
            raise
        raise CannotWrite(sentence(writer, spark.version, _cause(error))) from None
    if not is_there:
        raise CannotWrite(sentence(writer, spark.version, f"[{_NO_SCHEMA[0]}] the catalog knows no such schema"))


def sentence(writer: Writer, version: str, cause: str) -> str:
    """Return what a user is told: what cannot be written where, why, and what to do. `version`: of Spark; `cause`: what
    Spark said."""
    where = f"the schema {writer.place('')}" if writer.schema is not None else writer.path
    said = (
        f"no table was written: Spark {version} cannot write and read tables of the format {writer.format} in {where}"
    )
    return f"{said} ({cause}); {_remedy(writer, version, cause)}"


def _remedy(writer: Writer, version: str, cause: str) -> str:
    if any(word in cause for word in _NO_CATALOG):
        return f"set spark.sql.catalog.{writer.catalog} in the session, as the catalog's own manual says"
    if any(word in cause for word in _NO_SCHEMA):
        return f"create it first (CREATE SCHEMA {writer.place('')}), or name another by --schema"
    if writer.format not in PACKAGES:
        return "give the session the connector and the keys of that place, or name another"
    name, known = _NAMES[writer.format], PACKAGES[writer.format]
    own = known.get(".".join(version.split(".")[:2]))
    if own is not None:
        return f"submit with --packages {own} and the settings that docs/spark.md names for {name}"
    some = ", ".join(f"Spark {one} ({package})" for one, package in sorted(known.items()))
    return f"{name} is there for {some}: run the job with that version, or leave out --format"


def _cause(error: BaseException) -> str:
    """Return the first line of what Spark or Java said."""
    java = getattr(error, "java_exception", None)
    lines = str(java.toString() if java is not None else error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:_CAUSE_MAX]


def _remove(spark: SparkSession, writer: Writer, name: str) -> None:
    """Remove what a trial left. What cannot be removed has a name that begins with an underscore, which no reader
    takes for a table of the audit."""
    try:
        if writer.schema is not None:
            purge = " PURGE" if writer.format == "iceberg" else ""
            spark.sql(f"DROP TABLE IF EXISTS {writer.place(name)}{purge}")
            return
        jvm, session = spark._jvm, spark._jsparkSession
        place = jvm.org.apache.hadoop.fs.Path(writer.place(name))  # type: ignore[union-attr]
        place.getFileSystem(session.sessionState().newHadoopConf()).delete(place, True)
    except Exception as error:
        if not (isinstance(error, AttributeError | PySparkException) or from_java(error)):
            raise
