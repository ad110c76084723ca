"""Run by `spark-submit`: writes tables of any format as Parquet, for a test to read: `FORMAT PLACE OUT TABLE…`.

PLACE is the path above the tables, or a schema with its catalog.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(kind: str, place: str, out: str, *tables: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    for name in tables:
        table = spark.read.format(kind).load(f"{place}/{name}") if "/" in place else spark.table(f"{place}.{name}")
        table.write.mode("overwrite").parquet(f"{out}/{name}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
