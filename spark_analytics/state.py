"""The state of a stream: tables of which each batch writes a part of its own, and one note of the parts that count.

A part is a directory named by the batch that writes it, so a batch that is done again overwrites its own. The note of a
batch is written last, into the one of two places that does not hold the note of the batch before: a run that is killed
finds that one, and all that it names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .gold.delivery import SUMS

PARTS_MAX = 16
"""So many parts of one level become one part of the next."""
_ACCEPTED = (
    "struct<n:bigint,ids:binary,due_ns:bigint,recipients:array<string>,kind:string,signer:string,"
    "destination:string,peer:string>"
)
_OTHER = "struct<peer:string,signer:string,fields:map<string,string>,missing:bigint>"
ROWS = f"""router long, parcel long, event string, seq long, t long, mono long, boot long, recipient string,
    range_first long, range_count long, more_ranges array<array<bigint>>, reason string, count long, link long,
    depth long, is_old boolean, accepted {_ACCEPTED}"""
_HANDED = "id binary, taker long, router long, parcel long, i long, t long, acked_t long"
_COUNTS = ", ".join(f"{name} long" for name in (*SUMS, "strays"))
SCHEMAS = {
    "facts": "path string, uri string, size long, head binary, last binary, digest string, error string",
    "authentic": "footer string",
    "doubted": "path string",
    "counted": "router string, first_seq long, last_seq long, digest string",
    "stretches": "router string, low long, high long",
    "open": ROWS,
    "closed": ROWS,
    "again": ROWS,
    "ids": "id binary, router long, t long, parcel long",
    "words": "router string, event string, reason string, lines long, count long, future long, latest_t long, old long,"
    " more long, first_seq long, first_t long, last_seq long, last_t long",
    "told": f"router long, event string, seq long, t long, count long, reason string, other {_OTHER}",
    "witnesses": "router string, peer string, head_seq long, head_digest string",
    "changes": "router string, minute long, event string, subject string, changes long",
    "abuse": "router string, hour long, peer string, signer string, reason string, event string, count long,"
    " lines long",
    "lines": "router long, minute long, n long",
    "units": f"router long, recipient string, minute long, hole_first long, is_within boolean, {_COUNTS},"
    " pending_due_ns long, due_ns long",
    "waits": "router long, recipient string, code int, minute long, ended_minute long, is_within boolean, bucket long,"
    " count long, max_ns long, outside long, depth_max long",
    "custody": "router long, taker long, acked long, followed long, lower_ns long, upper_ns long",
    "waiting": _HANDED,
    "beyond": _HANDED,
}
"""`told`: lines about the router itself that are needed again; `waiting`: messages handed to routers that have not
accepted them, as far as the logs reach; `beyond`: to routers without a log here; `again`: the parcels of ids accepted
twice."""
REPLACED = ("open", "again", "words", "waiting")
"""Written whole with each batch; the others grow."""
LARGE = ("open", "closed", "ids", "waiting", "beyond")
"""Written as many files as there are partitions."""
GREATEST = ("max_ns", "depth_max", "due_ns", "lower_ns")
LEAST = ("pending_due_ns", "upper_ns")
KEYS = {
    "changes": ("router", "minute", "event", "subject"),
    "abuse": ("router", "hour", "peer", "signer", "reason", "event"),
    "lines": ("router", "minute"),
    "units": ("router", "recipient", "minute", "hole_first", "is_within"),
    "waits": ("router", "recipient", "code", "minute", "ended_minute", "is_within", "bucket"),
    "custody": ("router", "taker"),
}
"""Tables whose rows of one key add up: all other columns are sums, but for those in `GREATEST` and `LEAST`."""


@dataclass(frozen=True, slots=True)
class State:
    """What counts after a batch. `parts`: of each table; `unused`: parts that only the batch before needed.

    `is_ahead`: lines from later than `as_of_ns` were counted; `routers`: with logs here; `full`: why these logs cannot
    be added up bit by bit.
    """

    batch: int = -1
    as_of_ns: int = 0
    messages: int = 0
    accepted_again: int = 0
    open_rows: int = 0
    has_more: bool = False
    is_ahead: bool = False
    full: str = ""
    routers: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


class Store:
    """The tables under `root`, a directory of any file system that Spark knows."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")

    def __repr__(self) -> str:
        return f"<the state of a stream in {self.root}>"

    def base(self, batch: int) -> State:
        """The state that a batch goes on from."""
        notes = [note for place in "ab" if (note := self._note(place)) and note.batch < batch]
        return max(notes, key=lambda note: note.batch, default=State())

    def read(self, state: State, table: str) -> DataFrame:
        paths = [f"{self.root}/{part}" for part in state.parts.get(table, ())]
        if not paths:
            return self.spark.createDataFrame([], SCHEMAS[table])
        return self.spark.read.schema(SCHEMAS[table]).parquet(*paths)

    def frame(self, table: str, rows: DataFrame | list[dict[str, Any]]) -> DataFrame:
        """The rows with the columns of that table."""
        names = names_of(table)
        if isinstance(rows, DataFrame):
            return rows.select(*names)
        return self.spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SCHEMAS[table])

    def write(self, table: str, batch: int, rows: DataFrame, level: int = 0) -> str:
        """The name of the part that these rows become."""
        return self._put(f"state/{table}/{batch}.{level}", rows if table in LARGE else rows.coalesce(1))

    def publish(self, table: str, batch: int, rows: DataFrame) -> str:
        """The same of a table that is for others: the batch is a column of it."""
        return self._put(f"{table}/batch={batch}", rows)

    def _put(self, part: str, rows: DataFrame) -> str:
        rows.write.mode("overwrite").option("compression", "zstd").parquet(f"{self.root}/{part}")
        return part

    def count(self, parts: Iterable[str]) -> int:
        return self.spark.read.parquet(*(f"{self.root}/{part}" for part in parts)).count()

    def fold(self, state: State, batch: int) -> State:
        """The same with fewer parts, where there are many of one size."""
        parts, unused = dict(state.parts), list(state.unused)
        for table in SCHEMAS.keys() & state.parts.keys():
            found = state.parts[table]
            levels = [int(part.rpartition(".")[2]) for part in found]
            for level in sorted(set(levels)):
                small = tuple(part for part, own in zip(found, levels, strict=True) if own == level)
                if len(small) < PARTS_MAX:
                    continue
                rows = self.read(State(parts={table: small}), table)
                whole = self.write(table, batch, added_up(table, rows), level + 1)
                parts[table] = (*(part for part in found if part not in small), whole)
                unused += small
                break
        return replace(state, parts=parts, unused=tuple(unused))

    def commit(self, state: State) -> None:
        notes = {place: self._note(place) for place in "ab"}
        base = self.base(state.batch)
        place = next(place for place, note in notes.items() if note is None or note != base)
        said = self.spark.createDataFrame([(json.dumps(asdict(state)),)], "value string")
        said.coalesce(1).write.mode("overwrite").text(f"{self.root}/state/note-{place}")

    def clear(self, parts: Iterable[str]) -> None:
        """Leave nothing but an empty file: Spark can overwrite, not remove."""
        for part in parts:
            schema = self.spark.read.parquet(f"{self.root}/{part}").schema
            self._put(part, self.spark.createDataFrame([], schema).coalesce(1))

    def _note(self, place: str) -> State | None:
        try:
            lines = self.spark.read.text(f"{self.root}/state/note-{place}").collect()
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            return None
        if not lines:
            return None  # It was being written.
        said = json.loads(lines[0].value)
        said["parts"] = {table: tuple(parts) for table, parts in said["parts"].items()}
        return State(**said | {name: tuple(said[name]) for name in ("routers", "unused")})


def names_of(table: str) -> list[str]:
    """The columns of a table."""
    schema = StructType.fromDDL(SCHEMAS[table])
    assert isinstance(schema, StructType)
    return schema.fieldNames()


def added_up(table: str, rows: DataFrame) -> DataFrame:
    """The rows of a key as one; of a table without a key, the rows."""
    keys = KEYS.get(table)
    if keys is None:
        return rows
    sums = [
        (F.max if name in GREATEST else F.min if name in LEAST else F.sum)(name).alias(name)
        for name in rows.columns
        if name not in keys
    ]
    return rows.groupBy(*keys).agg(*sums)
