"""Silver: every event once, of the files that count; and the same as narrow rows, laid out so that one shuffle serves
all.

The rows of `compact` are shuffled and sorted by (router, parcel): sums by parcel, and joins with the accepted line,
then need no further shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement.chain import missing
from spark_analytics.judgement.door_sql import UNJOINED
from spark_analytics.judgement.evidence import File
from spark_analytics.judgement.presence_sql import HISTORY
from spark_analytics.judgement.schema import BYTES_MAX, COLUMNS, EPOCH_NS, EXPIRY_MAX, FRAME_EVENTS, TTL_S_MAX, UNLIKE

from . import bronze

FRAME_COLUMNS = ("schema", "first_seq", "last_seq", "segments", "lines", "counts", "min_t", "max_t", "predecessor",
                 "sha256", "signature")  # fmt: skip
"""The columns of headers and footers only."""
EVENT_COLUMNS = tuple(name for name in COLUMNS if name not in FRAME_COLUMNS)
IS_UNLIKE = f"""
    {bronze.CORRUPT} IS NOT NULL OR NOT router <=> signer_of_file OR event = 'accepted' AND NOT (
        n <=> count AND octet_length(ids) <=> n * 64
        AND n <=> size(sizes) AND n <=> size(ttls) AND n <=> size(expiries)
    )
"""
"""The condition of an invalid line: it cannot be parsed, is of another router than the file's signer, or its columns do
not have the stated length."""


OTHER = ("router", "event", "seq", "t", "mono", "boot", "count", "reason", "other")
"""The columns of the layout that lines about no accepted message are kept with."""

_KEYS = ("signer", "destination", "peer")
"""The fields of `accepted` that are keys."""
_T, _PARCEL = "coalesce(t, 0L)", "coalesce(parcel, 0L)"


class Part(NamedTuple):
    """The part of one file that counts: its lines of the sequence numbers first_seq .. last_seq."""

    file: str
    router: str
    first_seq: int
    last_seq: int


Seals = Mapping[str, int]
"""A number for each signed file by its URI, which keeps sums over its lines apart from those of other files."""


def parts(files: Iterable[File]) -> list[Part]:
    """Return the parts that count: all of each good file, and of each tail what no good file and no earlier tail
    has."""
    counted = [file for file in files if file.status in ("good", "tail") and file.router is not None]
    covered: dict[str, list[tuple[int, int]]] = {str(file.router): [] for file in counted}
    found = []
    for file in sorted(counted, key=lambda file: (file.status != "good", file.path)):
        router = str(file.router)
        free = [(file.first_seq, file.last_seq)]
        if file.status == "tail":
            free = missing(file.first_seq, file.last_seq, covered[router])
        found += [Part(file.path, router, first, last) for first, last in free if first <= last]
        covered[router].append((file.first_seq, file.last_seq))
    return found


def read_events(
    spark: SparkSession, found: Sequence[Part], uris: Mapping[str, str], numbers: Mapping[str, int]
) -> DataFrame:
    """Read the events of these parts; `uris`: the files' URIs by name; `numbers`: the routers' numbers by key."""
    rows = [
        (uri, part.router, numbers[part.router], part.first_seq, part.last_seq)
        for part in found
        for uri in bronze.spellings(uris[part.file])
    ]
    sources = table_of(spark, rows, "file string, router string, number long, a long, b long")
    read = [uris[name] for name in sorted({part.file for part in found})]
    return events(bronze.lines(spark, read) if read else bronze.no_lines(spark), sources)


def events(lines: DataFrame, sources: DataFrame) -> DataFrame:
    """Return the events among the lines of these files, between a and b; the router is the one that signed the file.

    A line that `IS_UNLIKE` becomes the event `UNLIKE`, with no other content.
    """
    is_event = ~F.col("event").isin(*FRAME_EVENTS)
    signed = sources.withColumnRenamed("router", "signer_of_file")
    kept = lines.where(is_event | F.col(bronze.CORRUPT).isNotNull()).join(F.broadcast(signed), "file", "inner")
    is_unlike = F.expr(IS_UNLIKE)
    columns = {name: F.col(bronze.quoted(name)) for name in EVENT_COLUMNS}
    columns["t"] = F.coalesce("t", F.lit(0))  # As all columns, it is left out where it is 0.
    said = {
        "event": F.lit(UNLIKE),
        "router": F.col("signer_of_file"),
        "seq": F.col("a"),
        "count": F.lit(0).cast("bigint"),
    }
    return kept.where(F.expr("seq >= a AND seq <= b") | is_unlike).select(
        *(F.when(is_unlike, said.get(name)).otherwise(column).alias(name) for name, column in columns.items()),
        "number",
        "file",
    )


def sealed(events: DataFrame, seals: Seals) -> DataFrame:
    """Add the number of the events' file as `seal`; null for files without one."""
    rows = [(spelled, seal) for uri, seal in seals.items() for spelled in bronze.spellings(uri)]
    table = table_of(events.sparkSession, rows, "file string, seal long")
    return events.join(F.broadcast(table), "file", "left")


def numbered(events: DataFrame, routers: DataFrame) -> DataFrame:
    """Return events as they were written, with their routers' `number`."""
    return events.join(F.broadcast(routers.select("number", "router")), "router", "inner")


def compact(events: DataFrame) -> DataFrame:
    """Return a narrow row for every line, with the router's number; columns of rare kinds of lines are packed into
    structs. The reason of an `UNLIKE` line is its file.

    `accepted`: a struct for accepted lines, else null (`due_ns`: when the last of its messages is due; `lives`: when
    each is, if they differ; `bytes`: of all; `sizes`: of each, if they differ; `expiry`: the latest; `ttls`,
    `expiries`: of each, if `lives` are); `other`: a struct for lines about no accepted message, else null (`ids`: of
    what was asked for as history, or turned away as `UNJOINED`, hex). The first range of an outward line has columns of
    its own, because few lines have another. `boot` is hashed; `parcel` of a line that names none is its sequence
    number, so that such lines spread.
    """
    is_accepted = F.col("event") == "accepted"
    signer = F.coalesce("source", "group", "signer").alias("signer")
    seal = F.col("seal") if "seal" in events.columns else F.lit(None).cast("bigint")
    is_turned = (F.col("event") == "refused") & (F.col("reason") == UNJOINED)
    asked = F.when((F.col("event") == HISTORY) | is_turned, F.col("ids")).alias("ids")
    other = F.struct("peer", signer, "fields", F.col("n").alias("missing"), _most(F.col("bytes")).alias("bytes"), asked)
    more = F.when(F.size("ranges") > 1, F.expr("slice(ranges, 2, size(ranges))"))
    return events.select(
        F.col("number").alias("router"),
        F.when(is_accepted, F.col("first")).otherwise(F.coalesce("parcel", "seq")).alias("parcel"),
        "event",
        "seq",
        "t",
        "mono",
        F.xxhash64("boot").alias("boot"),
        "recipient",
        F.expr("get(get(ranges, 0), 0)").alias("range_first"),
        F.expr("get(get(ranges, 0), 1)").alias("range_count"),
        more.alias("more_ranges"),
        F.when(F.col("event") == UNLIKE, F.col("file")).otherwise(F.col("reason")).alias("reason"),
        "count",
        "link",
        "depth",
        F.when(is_accepted, _accepted(signer)).alias("accepted"),
        F.when(~is_accepted & F.col("recipient").isNull(), other).alias("other"),
        seal.alias("seal"),
    )


def _most(size: Column) -> Column:
    """Return a number of bytes, or `BYTES_MAX` if it is greater; null for null."""
    return F.when(size > BYTES_MAX, BYTES_MAX).otherwise(size)


def _accepted(signer: Column) -> Column:
    """Return the struct of an accepted line."""
    due_ns = F.least(
        F.expr(f"t + least(array_max(ttls), {TTL_S_MAX}L) * 1000000000L"),
        F.expr(f"{EPOCH_NS}L + least(array_max(expiries), {EXPIRY_MAX}L) * 60000000000L"),
    )
    has_lives = "array_min(ttls) < array_max(ttls) OR array_min(expiries) < array_max(expiries)"
    lives = f"""transform(ttls, (ttl, i) -> least(
        t + least(ttl, {TTL_S_MAX}L) * 1000000000L,
        {EPOCH_NS}L + least(get(expiries, i), {EXPIRY_MAX}L) * 60000000000L))"""
    return F.struct(
        "n",
        F.unhex("ids").alias("ids"),
        due_ns.alias("due_ns"),
        F.expr("array_max(ttls)").alias("ttl_s"),
        F.array_distinct("recipients").alias("recipients"),
        "kind",
        signer,
        "destination",
        "peer",
        F.when(F.expr(has_lives), F.expr(lives)).alias("lives"),
        _most(F.expr("aggregate(sizes, 0L, (sum, size) -> sum + size)")).alias("bytes"),
        F.expr("CASE WHEN array_min(sizes) < array_max(sizes) THEN sizes END").alias("sizes"),
        F.expr("array_max(expiries)").alias("expiry"),
        F.when(F.expr(has_lives), F.col("ttls")).alias("ttls"),
        F.when(F.expr(has_lives), F.col("expiries")).alias("expiries"),
    )


def laid_out(rows: DataFrame, partitions: int) -> DataFrame:
    """Shuffle the rows once, which puts those of a parcel side by side."""
    even = _narrow(rows).repartition(partitions, "router", "parcel")
    return _wide(even.sortWithinPartitions("router", "parcel", "seq"))


def _narrow(rows: DataFrame) -> DataFrame:
    """Return the rows as they are shuffled: keys as bytes, and as differences the numbers that differ from others by
    the same in most rows, which compress well. A difference may overflow; the sum in `_wide` then overflows back."""
    found = F.col("accepted").withField("due_ns", F.expr(f"accepted.due_ns - {_T}"))
    for name in _KEYS:
        found = found.withField(name, F.unhex(f"accepted.{name}"))
    recipients = F.transform("accepted.recipients", F.unhex)
    return rows.withColumns(
        {
            "recipient": F.unhex("recipient"),
            "mono": F.expr(f"{_T} - mono"),
            "range_first": F.expr(f"range_first - {_PARCEL}"),
            "accepted": found.withField("recipients", recipients),
        }
    )


def _wide(rows: DataFrame) -> DataFrame:
    """Return the rows as they were before `_narrow`."""
    found = F.col("accepted").withField("due_ns", F.expr(f"accepted.due_ns + {_T}"))
    for name in _KEYS:
        found = found.withField(name, _key(F.col(f"accepted.{name}")))
    recipients = F.transform("accepted.recipients", _key)
    return rows.withColumns(
        {
            "recipient": _key(F.col("recipient")),
            "mono": F.expr(f"{_T} - mono"),
            "range_first": F.expr(f"range_first + {_PARCEL}"),
            "accepted": found.withField("recipients", recipients),
        }
    )


def _key(column: Column) -> Column:
    """Return the text of a key."""
    return F.lower(F.hex(column))
