"""The audit as a Spark job: `spark-submit --py-files spark_analytics.zip spark_analytics/job.py LOGS... --out TABLES`.

Also `python -m spark_analytics.job`, on this machine alone. Paths are of any file system that the session knows. The
summary goes to standard output, the progress to standard error. `python -m spark_analytics.package` makes the zip.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports below would end with a traceback.

import argparse
import json
import logging
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_analytics.arguments import instant, service_level
from spark_analytics.batch.audit import Given, audit_and_record
from spark_analytics.batch.bronze import NothingToRead, list_logs
from spark_analytics.batch.kept_rows import NotKept
from spark_analytics.batch.run_mark import OverlappingAudits, RunMark
from spark_analytics.batch.session import from_java, local_session
from spark_analytics.batch.short_memory import sentence
from spark_analytics.batch.span import NS_MAX, Span
from spark_analytics.batch.trial import CannotWrite, try_place
from spark_analytics.batch.writer import FORMATS, Writer
from spark_analytics.judgement.comparison import Head, NotASummary, heads_in
from spark_analytics.judgement.slo import USUAL
from spark_analytics.report.finding import utc
from spark_analytics.report.output import remark, say
from spark_analytics.report.page.markup import SAID_MAX, plain

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""An environment variable that shows that spark-submit started this process, which mixes a job's standard error into
its standard output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return 0 if the audit was made, whatever its verdict, 1 if it could not be finished, and 2 if the
    request was invalid."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    writer = Writer(asked.out, asked.catalog, asked.schema, asked.format) if asked.out or asked.schema else None
    if asked.bronze and writer is None:
        parser.error("--bronze needs a place: --out or --schema")
    if asked.format == "iceberg" and asked.schema is None:
        parser.error("--format iceberg needs --schema, and --catalog: Iceberg keeps its tables in a catalog")
    now = time.time_ns() if asked.as_of is None else asked.as_of
    try:
        spark = session()
        uris, problems = list_logs(spark, asked.paths)
        heads = tuple(head for path in asked.compare for head in _heads(path))
        if writer is not None:
            try_place(spark, writer)
    except (NothingToRead, NotStarted, NotASummary, CannotWrite) as error:
        remark(str(error))
        return 2
    span = Span(now, asked.since, asked.until, asked.slo)
    given = Given(uris, problems, named=lambda evidence: replace(evidence, elsewhere=heads), about=_about(arguments))
    progress = _silent if asked.json and SUBMITTED in os.environ else remark
    try:
        with _told():
            if writer is not None:
                given = _marked(given, RunMark(spark, writer, utc(now)))
            found = audit_and_record(spark, given, span, writer=writer, raw=asked.bronze, report=progress)
    except OverlappingAudits as error:
        remark(str(error))
        return 2
    except (NotKept, Unfinished) as error:
        remark(str(error))
        return 1
    if asked.json:
        say(json.dumps(found))
    else:
        _print(found)
    return 0


class Unfinished(Exception):
    """The audit could not be finished; the text says why, and what to do."""


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors whose cause is known into `Unfinished`."""
    try:
        yield
    except Exception as error:
        is_of_spark = isinstance(error, PySparkException) or from_java(error)
        if not is_of_spark or (why := sentence(str(error))) is None:
            raise
        raise Unfinished(why) from None


def _print(found: dict[str, Any]) -> None:
    say(f"verdict: {found['verdict']}")
    for row in found["findings"]:
        say(plain(f"{row['level']}: {row['text']} {row['remedy']}".rstrip(), SAID_MAX))


def _marked(given: Given, mark: RunMark) -> Given:
    """Mark the place of the tables as unfinished; return the input of an audit that checks the mark before it ends."""
    mark.begin()
    return replace(given, about={**given.about, "id": mark.id}, check=mark.check)


def _about(arguments: Sequence[str] | None) -> dict[str, str]:
    """Return what the summary says of the job itself."""
    given = sys.argv[1:] if arguments is None else arguments
    return {"command": shlex.join(["spark_analytics/job.py", *given]), "python": platform.python_version()}


def _heads(path: str) -> tuple[Head, ...]:
    """Return the heads of logs in the summary of another audit, a file of this machine."""
    try:
        return heads_in(path, Path(path).read_bytes())
    except OSError as error:
        raise NotASummary(f"{path} cannot be read: {error.strerror}; name the summary.json of an audit") from None


class NotStarted(Exception):
    """No Spark session could be started; the text says why, and what to do."""


def session(log_bytes: int | None = None) -> SparkSession:
    """Return the session of spark-submit, or of the Spark Connect server in SPARK_REMOTE; else a local one, which is
    told how many bytes are to be audited, if that is known. Raise `NotStarted`."""
    if SUBMITTED in os.environ or "SPARK_REMOTE" in os.environ:
        return SparkSession.builder.appName("router audit").getOrCreate()
    try:
        return local_session(log_bytes=log_bytes)
    except PySparkException as error:
        raise NotStarted(
            f"Spark did not start ({str(error).splitlines()[0]}): it needs a Java of version 17 or later, on the PATH"
            " or named in JAVA_HOME"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("spark_analytics.job", description="The delivery audit of event logs, by Spark.")
    parser.add_argument("paths", nargs="+", help="directories with event logs, searched through, or log files")
    parser.add_argument("--out", help="write the tables, the summary and the page below this path")
    parser.add_argument("--catalog", help="the catalog of --schema")
    parser.add_argument("--schema", help="write the tables into this schema; --out then gets summary and page")
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="of the tables")
    parser.add_argument("--bronze", action="store_true", help="write events_raw too: every line as it stands")
    parser.add_argument("--as-of", type=instant, help="judge as if it were then: an ISO 8601 time, or ns since 1970")
    parser.add_argument("--since", type=instant, default=0, help="only messages accepted from then on")
    parser.add_argument("--until", type=instant, default=NS_MAX, help="only messages accepted before then")
    parser.add_argument(
        "--slo", type=service_level, default=USUAL, help="what slo_hour measures: SHARE:TIME, as 99.9:5s"
    )
    parser.add_argument("--compare", action="append", default=[], help="compare with the logs of this summary.json")
    parser.add_argument("--json", action="store_true", help="print the whole summary as JSON")
    return parser


def _silent(what: str) -> None:
    """Report nothing, so that only the JSON is printed."""


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.disable()  # What the bridge to Java logs is raised too, and reported once.
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        remark("stopped before the audit was finished; run it again")
        sys.exit(130)
    finally:
        # Some clusters restart executors that lose their driver unexpectedly, and a driver's pod may stay.
        if started := SparkSession.getActiveSession():
            started.stop()
