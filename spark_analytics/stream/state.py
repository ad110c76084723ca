"""The state of a stream: tables to which each batch adds its own part, and a note of the parts that are in force.

A part is a directory named by the batch that writes it, so a batch that is repeated overwrites its own. Tables that are
written whole with each batch alternate between two places. The note of a batch is written last, and alternates with the
note of the batch before: a run that is killed finds that one, and all parts that it names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold import abuse_hour
from spark_analytics.batch.gold.delivery import SUMS, UNANSWERED, UNWRITTEN
from spark_analytics.batch.kept_rows import is_here, write_checked
from spark_analytics.batch.local_rows import no_rows, table_of
from spark_analytics.batch.small_texts import read_texts, write_text
from spark_analytics.batch.writer import save_parquet
from spark_analytics.judgement.slo import USUAL, Slo

from . import ledger
from .ledger import Ledger
from .stopped import Stopped

VERSION = 27
"""Version of the tables and of the note."""
PARTS_MAX = 16
"""Number of parts of one level from which they are folded into one part of the next."""
_ACCEPTED = (
    "struct<n:bigint,ids:binary,due_ns:bigint,ttl_s:bigint,recipients:array<string>,kind:string,signer:string,"
    "destination:string,peer:string,lives:array<bigint>,bytes:bigint,sizes:array<bigint>,"
    "expiry:bigint,ttls:array<bigint>,expiries:array<bigint>>"
)
ROWS = f"""router long, parcel long, event string, seq long, t long, mono long, boot long, recipient string,
    range_first long, range_count long, more_ranges array<array<bigint>>, reason string, count long, link long,
    depth long, accepted {_ACCEPTED}"""
_HANDED = "id binary, taker long, router long, parcel long, i long, kind string, t long, acked_t long"
COUNTS = (*SUMS, "strays", UNWRITTEN, UNANSWERED)
"""The counts of units."""
_COUNTS = ", ".join(f"{name} long" for name in COUNTS)
ADDED = {
    "changes": "router string, minute long, event string, subject string, changes long",
    "abuse": "router string, hour long, peer string, prefix string, signer string, reason string,"
    " event string, count long, lines long, bytes long",
    "units": f"router long, recipient string, minute long, hole_first long, is_within boolean, {_COUNTS},"
    " pending_due_ns long, due_ns long",
    "waits": "router long, recipient string, code int, minute long, is_within boolean, bucket long, count long,"
    " max_ns long",
    "ended": "router long, recipient string, minute long, ended long, outside long, early long, depth_max long",
    "window_units": f"router long, minute long, hole_first long, is_within boolean, {_COUNTS}",
    "window_waits": "code int, minute long, is_within boolean, bucket long, count long, max_ns long",
    "window_queues": "router long, recipient string, minute long, owed long, ended long, depth_max long",
    "hop_waits": "router long, recipient string, code int, is_within boolean, bucket long, count long, max_ns long",
    "router_sums": "router long, first long, last long, n long, copies long, outside long, early long",
    "custody": "router long, taker long, acked long, followed long, lower_ns long, upper_ns long",
    "passed": "router long, taker long, hour long, acked long, followed long",
    "reasons": "router string, hour long, event string, reason string, at_door boolean, count long, bytes long,"
    " lines long",
    "served": "router string, hour long, service string, event string, reason string, count long, lines long",
    "arrivals": "router long, hour long, kind string, group_key string, peer string, messages long, bytes long",
    "readers": "router long, group_key string, recipient string, hour long, owed long, delivered long, acked long",
    "written": "router long, recipient string, hour long, messages long, bytes long, copies long",
    "gone": "router long, parcel long, taker long, event string, reason string, seq long, t long, count long,"
    " kind string, group_key string, accepted_t long, ids binary",
    "followed_to": "router long, brought long, followed_seq long",
    "unsent": "router long, brought long, kind string, count long, first struct<seq:bigint,i:bigint,id:binary>",
    "carriers": "router long, destination string, n long",
    "barred": "router string, peer string, count long, lost long, withheld long, seq long",
    "turned": "router long, peer string, event string, reason string, seq long, t long, count long",
    "handed": "router long, recipient string, count long",
    "clock": "router long, boot long, seq long, t long, mono long",
    "acked": "router long, boot long, link long, recipient string, seq long, last_seq long",
    "left": "router long, parcel long, recipient string, seq long, count long",
    "pulled": "router long, parcel long, recipient string, count long",
}
"""Tables whose rows of one key are summed: all in one part of each batch, a column for each table. `window_units` to
`router_sums`: as of `window_sums`, with the `first` and `last` minute in which messages were accepted; `gone`: lines of
messages that ended on the way to a router with a log here (`two_logs`); `followed_to`: the last acceptance of a message
from a neighbour whose log tells of the taking over; `unsent`: messages that a neighbour never had, of which no log will
tell more; `carriers`: messages accepted for other routers themselves; `turned`, `handed`, `clock`: as of
`door_and_clock`; `acked`, `left`: as of `judged_claims`, as many rows as links that were used; `pulled`: as of
`order_findings`."""
SUSPECTS = {
    "gone_there": "id binary, router long, taker long, event string, reason string, seq long, t long",
    "missing": "id binary, router long, brought long, seq long, i long, t long, ttl_s long, kind string",
    "lacking": "router long, seq long, n long, group_key string, peer string, recipients array<string>, alone string,"
    " alone_ids string, first_id binary",
    "owed_wrongly": "router long, peer string, seq long, n long, app string, first_id binary",
    "circles": "id binary",
}
"""Tables of what may be a claim, written whole with each batch, a column for each table. `gone_there`: messages of
closed parcels in `gone` that the taker had from there; `missing`: messages that a neighbour is said to have brought, of
which its log does not tell yet; `lacking`: accepted lines that leave out somebody who had joined;
`owed_wrongly`: those that name nobody, or somebody wrongly; `circles`: messages that each router that has them had from
another one that has them."""
COLUMNS = ADDED | SUSPECTS
PLACES = dict.fromkeys(ADDED, "added") | dict.fromkeys(SUSPECTS, "suspects")
"""The table of the state in which each of these lies."""
KEYS = {
    "changes": ("router", "minute", "event", "subject"),
    "abuse": abuse_hour.KEY,
    "units": ("router", "recipient", "minute", "hole_first", "is_within"),
    "waits": ("router", "recipient", "code", "minute", "is_within", "bucket"),
    "ended": ("router", "recipient", "minute"),
    "window_units": ("router", "minute", "hole_first", "is_within"),
    "window_waits": ("code", "minute", "is_within", "bucket"),
    "window_queues": ("router", "recipient", "minute"),
    "hop_waits": ("router", "recipient", "code", "is_within", "bucket"),
    "router_sums": ("router",),
    "custody": ("router", "taker"),
    "passed": ("router", "taker", "hour"),
    "reasons": ("router", "hour", "event", "reason", "at_door"),
    "served": ("router", "hour", "service", "event", "reason"),
    "arrivals": ("router", "hour", "kind", "group_key", "peer"),
    "readers": ("router", "group_key", "recipient", "hour"),
    "written": ("router", "recipient", "hour"),
    "gone": (
        "router", "parcel", "taker", "event", "reason", "seq", "t", "kind", "group_key", "accepted_t", "ids",
    ),
    "followed_to": ("router", "brought"),
    "unsent": ("router", "brought", "kind"),
    "carriers": ("router", "destination"),
    "barred": ("router", "peer"),
    "turned": ("router", "peer", "event", "reason", "t"),
    "handed": ("router", "recipient"),
    "clock": ("router", "boot", "seq"),
    "acked": ("router", "boot", "link", "recipient"),
    "left": ("router", "parcel", "recipient", "seq"),
    "pulled": ("router", "parcel", "recipient"),
}  # fmt: skip
GREATEST = ("max_ns", "depth_max", "due_ns", "lower_ns", "followed_seq", "last_seq", "last")
LEAST = ("pending_due_ns", "upper_ns", "first", "seq", "t", "mono")
"""The columns that are merged by taking the least value. Columns in neither this, `GREATEST` nor a key are sums."""
SCHEMAS = {
    "ledger": ledger.SCHEMA,
    "added": ", ".join(f"{table} struct<{columns}>" for table, columns in ADDED.items()),
    "suspects": ", ".join(f"{table} struct<{columns}>" for table, columns in SUSPECTS.items()),
    "open": ROWS,
    "closed": ROWS,
    "again": ROWS,
    "ids": "id binary, router long, t long, parcel long, brought long, is_copy boolean, fact long, size long, seq long",
    "waiting": _HANDED,
    "beyond": _HANDED,
    "links": "router long, event string, seq long, t long, mono long, boot long,"
    " other struct<fields:map<string,string>,ids:string>",
}
"""`links`: lines of links that came up and went down, of starts, limits and clocks, of keys that followed others, of
neighbours that answered, of what was asked for as history, and of those who joined and left; also the line of a router
about itself before each start, and the last such line of each file; `waiting`: messages handed to routers that have
not accepted them, as far as the logs reach, and copies of which the first acceptance has not been read; `beyond`: to
routers without a log here;
`again`: the parcels of ids accepted twice."""
REPLACED = ("open", "again", "waiting", "suspects")
"""Tables written whole with each batch; the others grow."""
LARGE = ("open", "closed", "ids", "waiting", "beyond", "suspects")
"""Tables written as one file for each partition; folded parts of these are not folded again."""


Settled = Callable[[DataFrame], DataFrame]
NOTHING: Mapping[str, Settled] = {}


@dataclass(frozen=True, slots=True)
class State:
    """The state after a batch, as this `version` writes it. `parts`: those of each table; `unused`: parts that only the
    previous batch needed.

    `judged`: up to which event each log was judged for whom its lines name (`judged_once`); `rows`: how many rows that
    batch laid out; `is_ahead`: lines from later than `as_of_ns` were counted; `routers`:
    with logs here; `takers`: recipients that took messages over; `is_unlike`: two acceptances told different facts of
    an id; `is_passing`: that batch's tables have rows of lines that were not counted for good; `full`: why these logs
    cannot be audited incrementally; `ends`: the time of the last line of each log that is whole; `slo`: the service
    level that was measured.
    """

    batch: int = -1
    as_of_ns: int = 0
    messages: int = 0
    accepted_again: int = 0
    rows: int = 0
    has_more: bool = False
    is_ahead: bool = False
    is_unlike: bool = False
    is_passing: bool = False
    full: str = ""
    slo: Slo = USUAL
    ends: Mapping[str, int] = field(default_factory=dict)
    routers: tuple[str, ...] = ()
    takers: tuple[str, ...] = ()
    judged: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    version: int = VERSION

    def with_part(self, table: str, part: str) -> State:
        before = () if table in REPLACED else self.parts.get(table, ())
        return replace(self, parts={**self.parts, table: (*before, part)})


class Store:
    """The tables under `root`, a directory of any file system that Spark knows. The last state and ledger that it wrote
    are cached."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._last: State | None = None
        self.was_begun = False
        """Whether the batch that was asked for has been begun before, so that its tables may be there in part."""
        self._ledger: tuple[tuple[str, ...], Ledger] = (), ledger.empty()

    def __repr__(self) -> str:
        return f"<the state of a stream in {self.root}>"

    def base(self, batch: int) -> State:
        """Return the state that a batch starts from, that of the batch before. Raise `Stopped` if it is not there: no
        later batch would be given the files of the batches that are lacking."""
        if self._last is not None and self._last.batch == batch - 1:
            self.was_begun = False
            return self._last
        known = [State(), *self._notes()]
        self.was_begun = any(note.batch >= batch for note in known)
        found = next((note for note in known if note.batch == batch - 1), None)
        if found is None:
            raise Stopped(
                f"{self.root}/state lacks what batch {batch - 1} noted, and batch {batch} is next: where files are"
                " listed late, wait and run it again; else take the whole directory away, and everything is read again"
            )
        return found

    def ledger(self, state: State) -> Ledger:
        """Return all rows of the small tables."""
        parts = tuple(state.parts.get("ledger", ()))
        if not parts:
            return ledger.empty()
        if self._ledger[0] != parts:
            self._ledger = parts, ledger.from_frame(self.read(state, "ledger"))
        return self._ledger[1]

    def read(self, state: State, table: str) -> DataFrame:
        """Return the rows of a table outside the ledger, or the raw rows of the ledger."""
        paths = [f"{self.root}/{part}" for part in state.parts.get(table, ())]
        if not paths:
            return no_rows(self.spark, COLUMNS.get(table) or SCHEMAS[table])
        if table in COLUMNS:
            rows = self.spark.read.schema(f"{table} struct<{COLUMNS[table]}>").parquet(*paths)
            # Parquet leaves out pages of other tables by a column that is never null, not by the whole row.
            return rows.where(F.col(f"{table}.{names_of(table)[0]}").isNotNull()).select(f"{table}.*")
        return self.spark.read.schema(SCHEMAS[table]).parquet(*paths)

    def write(self, state: State, table: str, rows: DataFrame) -> State:
        """Write these rows as the batch's part of a table; return the state with that part."""
        place = "ab"[state.batch % 2] if table in REPLACED else f"{state.batch}.0"
        return state.with_part(table, self._put(table, place, rows))

    def note_down(self, state: State, new: Mapping[str, Rows]) -> State:
        """Write the batch's part of the small tables; return the state with that part."""
        whole = ledger.joined(self.ledger(state), new)
        state = self.write(state, "ledger", ledger.to_frame(self.spark, new))
        self._ledger = state.parts["ledger"], whole
        return state

    def add(self, state: State, new: Mapping[str, DataFrame], place: str = "added") -> State:
        """Write the batch's part of the summed tables, or of the suspects; return the state with that part, which is
        one of each table that has rows in it. The first part of sums holds all days."""
        counted = Observation()
        is_large = place == "added" and not state.parts.get(place)
        rows = _side_by_side(by_time(new) if is_large else new).observe(
            counted, *(F.count(name).alias(name) for name in new)
        )
        state = self.write(state, place, rows)
        part, parts = state.parts[place][-1], dict(state.parts)
        for name in (name for name in COLUMNS if PLACES[name] == place):
            before = () if place in REPLACED else parts.get(name, ())
            parts[name] = (*before, part) if counted.get.get(name) else before
        return replace(state, parts=parts)

    def publish(self, state: State, table: str, rows: DataFrame) -> State:
        """Write a table for readers outside, with the batch as a column; return the state with that part."""
        part = f"{table}/batch={state.batch}"
        self._save(part, rows)
        return state.with_part(table, part)

    def _put(self, table: str, place: str, rows: DataFrame) -> str:
        part = f"state/{table}/{place}"
        self._save(part, rows if table in LARGE else rows.coalesce(1))
        return part

    def _save(self, part: str, rows: DataFrame) -> None:
        place = f"{self.root}/{part}"
        write_checked(rows, place, lambda written: save_parquet(written, place))

    def fold(self, state: State, settled: Mapping[str, Settled] = NOTHING) -> State:
        """Return the state with fewer parts: many parts of one level are folded into one. `settled`: for tables of
        `ADDED` what makes more of their rows alike before they are added up."""
        for table in SCHEMAS.keys() & state.parts.keys() - {*REPLACED}:
            found = state.parts[table]
            levels = [int(part.rpartition(".")[2]) for part in found]
            for level in (0,) if table in LARGE else sorted({*levels}):
                small = tuple(part for part, own in zip(found, levels, strict=True) if own == level)
                if len(small) < PARTS_MAX:
                    continue
                whole = self._put(table, f"{state.batch}.{level + 1}", self._folded(state, table, small, settled))
                parts = {**state.parts, table: _with_whole(found, small, whole)}
                for name in COLUMNS if table == "added" else ():
                    parts[name] = _with_whole(parts.get(name, ()), small, whole)
                state = replace(state, parts=parts, unused=(*state.unused, *small))
                if table == "ledger":
                    self._ledger = parts[table], self._ledger[1]
                break
        return state

    def _folded(self, state: State, table: str, small: tuple[str, ...], settled: Mapping[str, Settled]) -> DataFrame:
        names = (table, *(ADDED if table == "added" else ()))
        of_parts = State(
            parts={one: tuple(part for part in state.parts.get(one, ()) if part in small) for one in names}
        )
        if table == "ledger":
            return ledger.to_frame(self.spark, ledger.from_frame(self.read(of_parts, table)))
        if table == "added":
            rows = {name: self.read(of_parts, name) for name in ADDED}
            rows |= {name: make(rows[name]) for name, make in settled.items()}
            return _side_by_side(by_time({name: added_up(name, table) for name, table in rows.items()}))
        return self.read(of_parts, table)

    def commit(self, state: State) -> None:
        place, text = f"{self.root}/state/note-{'ab'[state.batch % 2]}", json.dumps(asdict(state))
        if is_here(place):
            write_text(place, text)
        else:
            said = table_of(self.spark, [(text,)], "value string")
            said.coalesce(1).write.mode("overwrite").text(place)
        self._last = state

    def clear(self, parts: Iterable[str]) -> None:
        """Empty these parts, because Spark can overwrite but not remove them."""
        for part in parts:
            schema = self.spark.read.parquet(f"{self.root}/{part}").schema
            self._save(part, no_rows(self.spark, schema).coalesce(1))

    def _texts(self) -> list[str]:
        pattern = f"{self.root}/state/note-*"
        if is_here(pattern):
            return read_texts(pattern)
        try:
            return [line.value for line in self.spark.read.text(pattern).collect()]
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            return []

    def _notes(self) -> Iterable[State]:
        for text in self._texts():  # A note that was being written has no line.
            said = json.loads(text)
            if said.get("version", 1) != VERSION:
                raise Stopped(
                    f"{self.root} holds what another version of this audit wrote (state {said.get('version', 1)}; this"
                    f" one reads {VERSION}): give another --out, or take the whole directory away, and everything is"
                    " read again"
                )
            said["parts"] = {table: tuple(parts) for table, parts in said["parts"].items()}
            tuples = {name: tuple(said[name]) for name in ("routers", "takers", "unused")}
            yield State(**said | tuples | {"slo": Slo(*said["slo"])})


def _with_whole(parts: Sequence[str], small: Collection[str], whole: str) -> tuple[str, ...]:
    """Return the parts with the `small` ones replaced by one that has all their rows, if any of them is there."""
    rest = tuple(part for part in parts if part not in small)
    return (*rest, whole) if len(rest) < len(parts) else rest


def by_time(tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables, those by minute or hour in runs sorted by it: of these pages Parquet reads those of the times
    that are asked for. To sort the sums of one night would cost more than it saves."""
    times = {name: {"minute", "hour"} & {*names_of(name)} for name in tables}
    return {name: rows.sortWithinPartitions(*times[name]) if times[name] else rows for name, rows in tables.items()}


def _side_by_side(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Put rows of several tables into one table, each in its own table's column."""
    found = [
        rows.select(F.struct(*names_of(table)).cast(f"struct<{COLUMNS[table]}>").alias(table))
        for table, rows in tables.items()
    ]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), found)


def names_of(table: str) -> list[str]:
    """Return the columns of a table."""
    schema = StructType.fromDDL(COLUMNS.get(table) or SCHEMAS[table])
    assert isinstance(schema, StructType)
    return schema.fieldNames()


def added_up(table: str, rows: DataFrame) -> DataFrame:
    """Merge the rows of each key into one row."""
    sums = [
        (F.max if name in GREATEST else F.min if name in LEAST else F.sum)(name).alias(name)
        for name in rows.columns
        if name not in KEYS[table]
    ]
    return rows.groupBy(*KEYS[table]).agg(*sums)
