"""The audit of logs that grow: the same tables and the same summary after every batch of new segments.

    spark-submit --py-files spark_analytics.zip spark_analytics/streaming.py LOGS... --out OUT --once

Also `python -m spark_analytics.streaming`, on this machine alone. `stream.run` takes the batches.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports below would end with a traceback.

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from spark_analytics.arguments import age, file_count, instant, pause, service_level
from spark_analytics.batch import bronze
from spark_analytics.batch.kept_rows import NotKept
from spark_analytics.job import NotStarted, session
from spark_analytics.judgement.slo import USUAL
from spark_analytics.report.output import remark, say
from spark_analytics.stream.alarm_book import SEGMENT_S
from spark_analytics.stream.at_hand import bytes_at_hand
from spark_analytics.stream.notify import NotifyError
from spark_analytics.stream.run import run_stream
from spark_analytics.stream.stopped import Stopped, signals


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="streaming", description="Audit event logs as they grow.")
    parser.add_argument("paths", nargs="+", metavar="LOGS", help="directories that hold event logs")
    parser.add_argument("--out", required=True, help="where the tables, the state and the summary are kept")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--once", action="store_true", help="audit what is new, and end (the default)")
    when.add_argument("--every", type=pause, metavar="SECONDS", help="go on until stopped")
    parser.add_argument("--as-of", type=instant, help="the audit's now: an ISO 8601 time, or ns since 1970")
    parser.add_argument(
        "--slo", type=service_level, default=USUAL, help="what slo_hour measures: SHARE:TIME, as 99.9:5s"
    )
    parser.add_argument("--files-max", type=file_count, help="new files in one batch at most")
    parser.add_argument("--notify", metavar="COMMAND", help="run this for each alarm, which it reads as JSON")
    parser.add_argument(
        "--segment",
        type=age,
        default=SEGMENT_S,
        metavar="SECONDS",
        help="the age at which the nodes close a segment, their log.segment_s (3600): a log of which nothing came for"
        " three times as long, and half a minute at least, is an alarm",
    )
    parser.add_argument("--json", action="store_true", help="print the summary")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    as_of = time.time_ns if given.as_of is None else lambda: int(given.as_of)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # An error that stops a batch is reported once, below.
    try:
        size = bytes_at_hand(given.paths, given.out) if given.every is None else None
        with signals() as over:
            spark = SparkSession.getActiveSession() or session(size)
            with signals(over):  # Spark took Ctrl-C to itself.
                found = run_stream(
                    spark,
                    given.paths,
                    given.out,
                    every_s=given.every,
                    as_of=as_of,
                    files_max=given.files_max,
                    report=remark,
                    is_over=over.is_set,
                    notify=given.notify,
                    segment_s=given.segment,
                    slo=given.slo,
                )
    except (bronze.NothingToRead, NotKept, NotStarted, NotifyError, Stopped) as error:
        remark(str(error))
        return 2
    if over.is_set():
        remark(f"stopped; run it again with --out {given.out}, and it goes on where it was")
    elif found is None:
        remark("no event log came: nothing was audited")
        return 2
    if found is not None:
        say(json.dumps(found) if given.json else f"verdict: {found['verdict']}; {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
