"""The alarms of a stream: what stands, where its tables are; the table `alarm`; and the command that is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_analytics.batch.kept_rows import write_checked
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.writer import save_parquet
from spark_analytics.report.alarms import late_heads, matters
from spark_analytics.report.finding import many

from .alarms import Alarm, Heads, Moment, Standing, after, from_text, looked, passed, to_text
from .notify import END_S, WAITING_MAX, Notifier
from .taken import Taken

SEGMENTS_MAX = 3
"""How many times the age of a segment the newest event of a log may be old."""
SEGMENT_S = 3_600
"""The age at which a node closes a segment (`log.segment_s`), in seconds, unless another is given."""
SILENT_S = 30.0
"""The least age of a log's newest event that is an alarm: a node on which nothing happens logs so every ten seconds at
most (`router.disk.log.sealer.IDLE_S`)."""
COLUMNS = (
    "key string, change string, level string, finding string, router string, peer string, text string, remedy string,"
    " evidence string, as_of string"
)
"""The table `alarm`: a row when a finding is raised, and one when it is over; by batch, and by look after it (`step`).
"""


class AlarmBook:
    """Compares each batch's findings with those before, writes what is new, and tells the command.

    What stands is noted before the command is told, so after a crash it is told again, with the same key, of what it
    is not known to have taken (`taken_in`).
    """

    def __init__(
        self, spark: SparkSession, root: str, notifier: Notifier | None, segment_s: float, report: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._root = root
        self._is_local = "://" not in root
        self._notifier = notifier
        self._oldest_ns = int(max(SEGMENTS_MAX * segment_s, SILENT_S) * 1e9)
        self._report = report
        self._lock = threading.Lock()
        self._stream = ""
        self._standing = max(self._notes(), key=_order, default=Standing())
        if notifier is not None:
            notifier.put(self._standing.untold)

    def __repr__(self) -> str:
        return f"<alarms of {self._root}: {len(self._standing.raised)} stand>"

    def take(self, summary: Mapping[str, Any], heads: Heads, batch: int, as_of_ns: int, *, has_all: bool) -> None:
        """Compare the findings of a batch with what stood before it. `has_all`: whether all that had come by
        `as_of_ns` is in it, or in earlier ones; otherwise no log is newly late."""
        with self._lock:
            before = self._standing
            if before.batch >= batch:  # this batch was begun before, and killed
                before = max((note for note in self._notes() if note.batch < batch), key=_order, default=Standing())
            holed = frozenset(hole["router"] for hole in summary["holes"])
            late = late_heads(heads, as_of_ns, self._oldest_ns)
            found = matters(summary) | {key: late[key] for key in late if has_all or key in before.raised}
            at = Moment(self._named(), batch, 0, as_of_ns, *passed(heads, holed, as_of_ns, self._oldest_ns))
            self._say(*after(replace(before, heads=heads), found, at))

    def look(self, as_of_ns: int | None) -> None:
        """Look between two batches whether logs have gone silent; do nothing while a batch is at work. `as_of_ns`: all
        that had come by then is read; None if that is not known of any time."""
        if as_of_ns is None or self._standing.batch < 0 or not self._lock.acquire(blocking=False):
            return
        try:
            standing = self._standing
            late = late_heads(standing.heads, as_of_ns, self._oldest_ns)
            if late.keys() - standing.raised.keys():
                self._say(*looked(standing, late, Moment(self._named(), standing.batch, standing.step + 1, as_of_ns)))
        finally:
            self._lock.release()

    def _say(self, standing: Standing, new: list[Alarm]) -> None:
        """Write what is new and note what stands; then tell the command."""
        if new:
            rows = [tuple(one.values()) for one in new]
            table = table_of(self._spark, rows, COLUMNS).coalesce(1)
            place = f"{self._root}/alarm/batch={standing.batch}/step={standing.step}"
            write_checked(table, place, lambda rows: save_parquet(rows, place))
        untold = () if self._notifier is None else (*self._notifier.untold(), *new)
        self._standing = replace(standing, untold=untold[-WAITING_MAX:])
        self._note()
        if self._notifier is not None:
            self._notifier.put(new)
        for one in new:
            self._report(f"alarm {one['change']}: {one['level']}: {one['text']}")

    def close(self, within_s: float = END_S) -> None:
        """Wait a little until the command is told, and note what it was not told of, for the next run."""
        if self._notifier is None:
            return
        untold = self._notifier.close(within_s)
        with self._lock:
            if len(untold) != len(self._standing.untold):
                self._standing = replace(self._standing, untold=untold, step=self._standing.step + 1)
                self._note()
        if untold:
            count = many(len(untold), "alarm")
            self._report(f"the command of --notify was not told of {count}; the next run tells it then")

    # -- on disk -----------------------------------------------------------------------------------------------------

    def _named(self) -> str:
        """Return the name that Spark gave this stream for good, in its checkpoint."""
        if not self._stream:
            [line] = self._lines("checkpoint/metadata")
            self._stream = str(json.loads(line)["id"])
        return self._stream

    def _note(self) -> None:
        """Write what stands: for batches in two places in turn, and for looks after a batch in two others."""
        standing = self._standing
        name = "state/alarms-" + ("cd"[standing.step % 2] if standing.step else "ab"[standing.batch % 2])
        text = to_text(standing)
        if self._is_local:
            draft = Path(self._root, f"{name}.draft")
            draft.parent.mkdir(exist_ok=True)
            draft.write_text(text, "utf-8")
            draft.replace(Path(self._root, name))
        else:
            said = table_of(self._spark, [(text,)], "value string")
            said.coalesce(1).write.mode("overwrite").text(f"{self._root}/{name}")

    def _notes(self) -> list[Standing]:
        lines = (line for place in "abcd" for line in self._lines(f"state/alarms-{place}"))
        return [note for line in lines if (note := from_text(line)) is not None]

    def _lines(self, name: str) -> list[str]:
        """Return the lines of a file, or of a directory of files, below the root; none if it is not there."""
        if self._is_local:
            path = Path(self._root, name)
            return path.read_text("utf-8").splitlines() if path.is_file() else []
        try:
            return [row.value for row in self._spark.read.text(f"{self._root}/{name}").collect()]
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            return []


def taken_in(root: str) -> Taken:
    """Return which alarms the command has taken. Below a path of another file system that is noted with the next batch,
    and at the end: a line cannot be added to a file there."""
    return Taken(None if "://" in root else Path(root, "state/alarms-taken"))


def _order(standing: Standing) -> tuple[int, int]:
    return standing.batch, standing.step
