"""Small tables from rows of the driver, without Python on the executors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

ROWS_MAX = 100_000
"""Most rows that stand in the plan itself, as one text; more are handed over as data."""
TEXT_MAX = 32 << 20
"""Most characters of that text."""


def table_of(spark: SparkSession, rows: Sequence[Any], schema: str) -> DataFrame:
    """Return a table with these rows (tuples), as `SparkSession.createDataFrame` does.

    That one lets Python processes copy the rows each time the table is read, which costs more than to read it. A
    literal would be printed whenever an adaptive plan changes: seconds of an audit of some hundred files.
    """
    if not rows:
        return no_rows(spark, schema)
    if len(rows) > ROWS_MAX:
        return spark.createDataFrame(rows, schema)
    kind = StructType.fromDDL(schema)
    text = json.dumps([_plain(row, kind) for row in rows])
    if len(text) > TEXT_MAX:
        return spark.createDataFrame(rows, schema)
    given = spark.sql(f"SELECT rows FROM VALUES (r'{_in_raw_text(text)}') AS given(rows)")
    return given.select(F.inline(F.from_json("rows", ArrayType(kind), {"mode": "FAILFAST"})))


def _in_raw_text(text: str) -> str:
    """Return JSON without the characters that end a raw string of SQL, or begin a variable in it. A parameter would
    need none of this, but Delta's parser of statements binds none."""
    return text.replace("'", r"\u0027").replace("$", r"\u0024")


def no_rows(spark: SparkSession, schema: str | StructType) -> DataFrame:
    """Return a table without rows, of which Spark knows that it has none when it plans what is made of it."""
    kind = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(kind, StructType)
    columns = (f"CAST(NULL AS {field.dataType.simpleString()}) AS `{field.name}`" for field in kind.fields)
    return spark.sql(f"SELECT {', '.join(columns)} WHERE false")


def _plain(value: Any, kind: DataType) -> Any:
    """Return a value as JSON has it: tuples of structs as objects."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _plain(one, field.dataType) for field, one in zip(kind.fields, value, strict=True)}
    if isinstance(kind, ArrayType):
        return [_plain(one, kind.elementType) for one in value]
    return value
