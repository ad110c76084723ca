"""Bronze: list the log files, collect the facts of each, and read their unprocessed lines, all with Spark.

`file_facts` reads every file once as bytes, natively: first and last line, and the digest of the bytes between. Of a
compressed file, all is of its text. Nothing here decides which files count; `evidence` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from urllib.parse import unquote

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from spark_analytics.judgement.evidence import NO_LOG
from spark_analytics.judgement.line_grammar import EVENT, KNOWN_EVENTS, LINE_BYTES_MAX, MAPPED, NEWER, OTHER, PLAIN
from spark_analytics.judgement.log_files import FileFacts, Problem
from spark_analytics.judgement.schema import COLUMNS, role

from . import packed
from .local_rows import no_rows

END_BYTES_MAX = 64 * 1024
"""Number of bytes kept of the first and of the last line; header and footer are shorter."""
FILE_BYTES_MAX = 1 << 30
"""The largest file that is read: Spark reads a whole file at once, and a router closes a segment long before this
size."""
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
CORRUPT = "_corrupt"
_URI = "_metadata.file_path"
_BYTES = "ISO-8859-1"  # one character for each byte, so text functions count bytes
_GLOB = "__globPaths__"
"""Spark's own option for whether a path is a pattern. Where a path holds a colon, Hadoop fails over any pattern, also
over one whose special characters are escaped."""
_PATTERN = re.compile(r"[\[\]{}*?\\]")
_STORE = "/store/data.mdb"
STORE = "a node's store, whose events in no segment yet are not read here: `router audit` reads them on its machine"
_MISSING_PATH = ("PATH_NOT_FOUND", "_LEGACY_ERROR_TEMP_1388")


class NothingToRead(Exception):
    """Raised if none of the paths holds an event log; the text lists the paths."""


def list_logs(spark: SparkSession, paths: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
    """Return the log files at these paths of any file system that Spark knows, as name -> URI, and the problems with
    the paths.

    Directories are searched recursively; a file that is named is taken whatever its name is. Names that begin with a
    dot or an underscore are hidden from Spark. A path with `*`, `?`, `[` or `{` is a pattern, unless it exists.
    """
    found: dict[str, str] = {}
    problems = []
    for path in paths:
        there = _named_or_matched(spark, path)
        is_named = [name.rpartition("/")[2] for name in there] == [path.rstrip("/").rpartition("/")[2]]
        logs = there if is_named else {name: uri for name, uri in there.items() if role(name) is not None}
        if not logs:
            problems.append(Problem(path, 0, NO_LOG))
        problems += [Problem(name, 0, STORE) for name in sorted(there) if name.endswith(_STORE)]
        found |= logs
    if not found:
        said = "; ".join(map(str, problems)) or "no path was given"
        raise NothingToRead(f"{said}; name the log directory of a node, or a directory above several")
    return dict(sorted(found.items())), problems


def uris_of(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """Return the URIs of these files, by their full paths, leaving out those that Spark does not see."""
    return _there(spark, paths) if paths else {}


def name_of(uri: str) -> str:
    """Return a path for people: with decoded characters, and without `file:` if it is local."""
    return unquote(re.sub(r"^file:(//(?=/))?", "", uri))


def file_facts(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Return one row for each file that has bytes and could be read: uri, size, head, last, digest."""
    content = F.col("content")
    size = F.length(content)
    files = _contents(spark, uris)
    start = F.decode(F.substring(content, 1, END_BYTES_MAX), _BYTES)
    end = F.decode(F.expr(f"substring(content, greatest(1, length(content) - {END_BYTES_MAX - 1}))"), _BYTES)
    lines = files.select("uri", "content", size.alias("size"), start.alias("start"), end.alias("end"))
    newline = F.when(F.col("end").endswith("\n"), "\n").otherwise("")
    whole = F.expr("substring(end, 1, length(end) - length(newline))")
    last = F.concat(F.substring_index(whole, "\n", -1), "newline")
    head = F.substring_index("start", "\n", 1)
    head = F.when(F.length(head) < F.length("start"), F.concat(head, F.lit("\n"))).otherwise(head)
    found = lines.withColumn("newline", newline).select(
        "uri", "content", "size", head.alias("head"), last.alias("last")
    )
    body = F.expr("substring(content, 1, cast(size - length(last) as int))")
    return found.select(
        "uri",
        F.col("size").cast("bigint").alias("size"),
        F.encode("head", _BYTES).alias("head"),
        F.encode("last", _BYTES).alias("last"),
        F.sha2(body, 256).alias("digest"),
    )


def facts_of(spark: SparkSession, logs: Mapping[str, str]) -> list[FileFacts]:
    """Return the facts of all these files (name -> URI), in order of their names, with an `error` if one cannot be
    read.

    Only segments are searched for invalid lines: each line of other files is judged where it is read.
    """
    left_out = _too_large(spark, logs)
    read = {name: uri for name, uri in logs.items() if name not in left_out}
    rows = file_facts(spark, list(read.values())).collect() if read else []
    found = {name_of(row.uri): row for row in rows}
    odd = _with_odd_lines(spark, [uri for name, uri in read.items() if role(name) in ("segment", None)])
    facts = [
        FileFacts(name, row.size, bytes(row.head), bytes(row.last), row.digest, is_odd=name_of(uri) in odd)
        if (row := found.get(name_of(uri)))
        else _odd_file(spark, name, uri)
        for name, uri in read.items()
    ]
    return sorted([*facts, *(FileFacts(name, 0, b"", b"", "", packed.TOO_LARGE) for name in left_out)])


def _too_large(spark: SparkSession, logs: Mapping[str, str]) -> set[str]:
    """Return the names of the compressed files that may hold too much text to be read."""
    names = {name_of(uri): name for name, uri in logs.items() if packed.is_packed(name)}
    if not names:
        return set()
    files = _files(spark, _paths(logs[name] for name in names.values()))
    some = files.where(F.col("length") <= FILE_BYTES_MAX).select(F.col(_URI).alias("uri"), "content")
    more = files.where(F.col("length") > FILE_BYTES_MAX).select(F.col(_URI).alias("uri"))
    more = more.withColumn("content", F.lit(None).cast("binary"))
    return {names[name_of(uri)] for uri in packed.too_large(some.unionByName(more))}


def _with_odd_lines(spark: SparkSession, uris: Sequence[str]) -> set[str]:
    """Return the names of the files that hold an invalid line."""
    if not uris:
        return set()
    reader = _exact(spark.read).option("lineSep", "\n")
    reader = reader.option("ignoreMissingFiles", True).option("ignoreCorruptFiles", True)
    odd = reader.text(_paths(uris)).where(~is_line("value")).select(F.col(_URI).alias("uri")).distinct()
    return {name_of(row.uri) for row in odd.collect()}


def _odd_file(spark: SparkSession, name: str, uri: str) -> FileFacts:
    """Return the facts of a file for which Spark gave no row: it is empty, or cannot be read."""
    try:
        rows = (
            _exact(spark.read.format("binaryFile"))
            .load(_paths([uri]))
            .select("length", F.col("content").isNull())
            .collect()
        )
    except PySparkException as error:
        return FileFacts(name, 0, b"", b"", "", f"Spark cannot read it: {str(error).splitlines()[0][:200]}")
    if not rows:
        return FileFacts(name, 0, b"", b"", sha256().hexdigest())
    if packed.is_packed(name):
        return FileFacts(name, 0, b"", b"", "", packed.not_unpacked(spark.version))
    return FileFacts(name, rows[0][0], b"", b"", "", f"it is larger than {FILE_BYTES_MAX} bytes")


def content_of(spark: SparkSession, uri: str) -> bytes:
    """Return the text of a file; none if Spark cannot read it."""
    return b"".join(bytes(row.content) for row in _contents(spark, [uri]).select("content").collect())


def lines(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Read the lines of these files into the columns of `schema.COLUMNS` (others are left out), the file's path as
    `file`, and text that is not JSON of that schema as `_corrupt`.

    The lines of these files have already been judged by the grammar: `facts_of` finds the odd ones.
    """
    reader = _exact(spark.read).schema(f"{SCHEMA}, {CORRUPT} STRING").option("columnNameOfCorruptRecord", CORRUPT)
    found = reader.option("lineSep", "\n").json(_paths(uris))
    # Taking the path from `_metadata` would copy each row.
    return found.select(*map(quoted, COLUMNS), CORRUPT, F.input_file_name().alias("file"))


def is_line(name: str) -> Column:
    """Whether the text in that column is a line of an event log: `line_grammar.is_line`, computed by Spark."""

    def fits(pattern: str) -> Column:
        return F.col(name).rlike(rf"\A(?:{pattern})\z")

    def differ(names: Column) -> Column:
        return F.coalesce(F.size(names) == F.size(F.array_distinct(names)), F.lit(True))

    is_of_another_event = fits(OTHER) & ~F.regexp_extract(name, EVENT, 1).isin(*KNOWN_EVENTS)
    has_names_that_differ = differ(F.json_object_keys(name))
    for one in ("fields", "counts"):
        has_names_that_differ &= differ(F.json_object_keys(F.get_json_object(name, f"$.{one}")))
    has_names = F.when(fits(MAPPED) | fits(NEWER) | is_of_another_event, has_names_that_differ).otherwise(False)
    return (
        F.when(F.octet_length(name) >= LINE_BYTES_MAX, F.lit(False)).when(fits(PLAIN), F.lit(True)).otherwise(has_names)
    )


def no_lines(spark: SparkSession) -> DataFrame:
    """Return an empty table of lines."""
    return no_rows(spark, f"{SCHEMA}, {CORRUPT} STRING, file STRING")


def spellings(uri: str) -> list[str]:
    """Return the spellings of a URI that Spark may put beside a line of that file: a local path with one or three
    slashes."""
    return [re.sub("^file:/+", start, uri) for start in ("file:/", "file:///")] if uri.startswith("file:/") else [uri]


def events_raw(text: DataFrame) -> DataFrame:
    """Parse lines (`value`, `file`) into columns: those of the schema, `_rescued` (columns that the schema lacks, as
    text), `_corrupt` (the bytes of an invalid line), the file and the time of ingestion."""
    judged = text.withColumn("is_line", is_line("value"))
    parsed = judged.withColumn("line", F.from_json(F.when(F.col("is_line"), F.col("value")), SCHEMA))
    names = F.array(*(F.lit(name) for name in COLUMNS))
    unknown = F.array_except(F.json_object_keys("value"), names)
    everything = F.from_json("value", "map<string,string>")
    rescued = F.map_filter(everything, lambda name, _: F.array_contains(F.col("unknown"), name))
    return parsed.withColumn("unknown", unknown).select(
        "file",
        *(F.col(f"line.{quoted(name)}") for name in COLUMNS),
        F.when(F.col("is_line") & (F.size("unknown") > 0), rescued).alias("_rescued"),
        F.when(~F.col("is_line"), F.col("value").cast("binary")).alias(CORRUPT),
        F.current_timestamp().alias("ingested_at"),
    )


def text_lines(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Read the lines of these files as text: `value`, `file`."""
    found = _exact(spark.read).option("lineSep", "\n").text(_paths(uris))
    return found.select("value", F.col(_URI).alias("file"))


def quoted(name: str) -> str:
    return f"`{name}`"


def condition_of(error: PySparkException) -> str | None:
    """Return the name of a Spark error, in Spark 4 or 3.5."""
    found: str | None = getattr(error, "getCondition", error.getErrorClass)()
    return found


def _paths(uris: Iterable[str]) -> list[str]:
    """Return the paths of these URIs as Spark takes them, if they are no patterns."""
    return [*map(unquote, uris)]


def _exact(reader: DataFrameReader) -> DataFrameReader:
    """Return the reader for paths that are no patterns. Without the search below each path, which is a file, Spark 4
    would read all files once for each path that looks like a pattern."""
    return reader.option(_GLOB, "false").option("recursiveFileLookup", True)


def _files(spark: SparkSession, paths: Sequence[str], *, are_patterns: bool = False) -> DataFrame:
    reader = spark.read.format("binaryFile")
    reader = reader.option("recursiveFileLookup", True) if are_patterns else _exact(reader)
    return reader.option("ignoreMissingFiles", True).option("ignoreCorruptFiles", True).load(list(paths))


def _contents(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Return the text of each file, whole: uri, content. Files that are too large or cannot be read are left out."""
    plain = [uri for uri in uris if not packed.is_packed(uri)]
    found = []
    if plain:
        files = _files(spark, _paths(plain)).where(F.col("length") <= FILE_BYTES_MAX)
        found.append(files.select(F.col(_URI).alias("uri"), "content"))
    if len(plain) < len(uris):
        found.append(packed.texts(_exact(spark.read), _paths(uri for uri in uris if packed.is_packed(uri))))
    return found[0] if len(found) == 1 else found[0].unionByName(found[1])


def _named_or_matched(spark: SparkSession, path: str) -> dict[str, str]:
    """Return name -> URI of the files at that path, or at those that match it as a pattern."""
    found = _there(spark, [path])
    if found or not _PATTERN.search(path):  # Spark does not say that a path with such a character does not exist.
        return found
    return _there(spark, [path], are_patterns=True)


def _there(spark: SparkSession, paths: Sequence[str], *, are_patterns: bool = False) -> dict[str, str]:
    """Return name -> URI of the files at these paths. Over Spark Connect, Spark searches for them only now."""
    try:
        return {name_of(uri): uri for uri in _files(spark, paths, are_patterns=are_patterns).inputFiles()}
    except AnalysisException as error:
        if condition_of(error) not in _MISSING_PATH:
            raise
        said = f"there is nothing at {' or '.join(paths[:3])}: name the log directory of a node"
        raise NothingToRead(said) from None
