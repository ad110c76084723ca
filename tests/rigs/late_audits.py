"""Run by `spark-submit`: a stream and an audit of logs, before and after a store lists all.

Its arguments: `LOGS OUT NOW STORE ANSWER`. OUT is where the stream keeps its tables, NOW the time of all audits in ns,
STORE the URL of the server of `s3_process`. Writes the four summaries as JSON to the file ANSWER: of the stream and of
the audit before, then of both after.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.request import urlopen

from pyspark.sql import SparkSession

from spark_analytics.batch.audit import Given, audit
from spark_analytics.batch.bronze import list_logs
from spark_analytics.batch.span import Span
from spark_analytics.stream.run import run_stream


def main(logs: str, out: str, now: str, store: str, answer: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    found = []
    for is_late in (True, False):
        if not is_late:
            urlopen(f"{store}/-/late?lists=0").close()
        found.append(run_stream(spark, [logs], out, as_of=lambda: int(now)))
        found.append(audit(spark, Given(*list_logs(spark, [logs])), Span(int(now))))
    Path(answer).write_text(json.dumps(found), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
