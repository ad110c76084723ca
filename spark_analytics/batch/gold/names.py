"""Turn routers' numbers into keys: intermediate tables hold numbers, in the order of the keys."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def named(table: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the table with its column `router` as key instead of number."""
    names = F.broadcast(routers.select(F.col("number").alias("of_key"), F.col("router").alias("key")))
    found = table.join(names, table["router"] == names["of_key"], "inner").drop("of_key", "router")
    return found.withColumnRenamed("key", "router")


def rows(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.collect()]
