"""From the files that count to the table `events`: every line read once, with the columns that an audit needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import duckdb

from router.audit.database import AuditFailed, Database, exact, quoted
from router.audit.facts import longest_line
from router.audit.sealed import contradicted
from spark_analytics.chain import missing
from spark_analytics.evidence import Evidence, File, Gap, Witness
from spark_analytics.schema import COLUMNS, COUNT_MAX, EPOCH_NS

LINE_BYTES_MAX = 64 << 20
"""A longer line is not read; a router's are at most a few hundred KiB."""
LINE_BYTES = 16 << 20
"""So long may a line be without a look at how long the file's lines really are: DuckDB's buffers are as large."""
NEEDED = (
    "event", "seq", "n", "t", "mono", "boot", "kind", "source", "group", "signer", "destination", "peer", "first",
    "count", "ids", "ttls", "expiries", "recipients", "recipient", "ranges", "parcel", "reason", "link", "depth",
    "fields",
)  # fmt: skip
_TYPES = {
    "BIGINT": "BIGINT", "STRING": "VARCHAR", "ARRAY<BIGINT>": "BIGINT[]", "ARRAY<STRING>": "VARCHAR[]",
    "ARRAY<ARRAY<BIGINT>>": "BIGINT[][]", "MAP<STRING,STRING>": "MAP(VARCHAR, VARCHAR)",
}  # fmt: skip
_UNLIKE = (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException)
"""What DuckDB says of a line that is no JSON, no UTF-8, or has another type in a column."""
_EVENTS = """
INSERT INTO events
SELECT
    file.router, file.number, seq,
    CASE WHEN event = 'accepted' THEN least(n, strlen(ids) // 64)
        WHEN recipient IS NOT NULL THEN at_most(ranges[1][2], $count_max)
        ELSE n
    END AS n,
    t, mono, boot, event, kind,
    coalesce(source, "group", signer) AS signer, destination, peer, at_most(count, $count_max) AS count,
    CASE WHEN event = 'accepted' THEN ids END AS ids, recipients,
    CASE WHEN event = 'accepted' THEN least(
        t + list_max(ttls)::HUGEINT * 1_000_000_000,
        $epoch_ns + list_max(expiries)::HUGEINT * 60_000_000_000,
        9_223_372_036_854_775_807
    )::BIGINT END AS due_ns,
    list_max(ttls) AS ttl_s,
    CASE WHEN list_min(ttls) < list_max(ttls) OR list_min(expiries) < list_max(expiries) THEN list_transform(
        list_zip(ttls, expiries), lambda life: least(
            t + life[1]::HUGEINT * 1_000_000_000, $epoch_ns + life[2]::HUGEINT * 60_000_000_000,
            9_223_372_036_854_775_807
        )::BIGINT
    ) END AS lives,
    recipient, CASE WHEN event = 'accepted' THEN first ELSE parcel END AS parcel, ranges[1][1] AS range_first,
    CASE WHEN len(ranges) > 1 THEN ranges[2:] END AS more_ranges,
    reason, link, depth, fields
FROM read_json(
    $paths, format = 'newline_delimited', records = 'true', compression = 'uncompressed', columns = {columns},
    maximum_object_size = $line_bytes, filename = true
) line
JOIN file ON file.path = line.filename
WHERE event NOT IN ('segment', 'seal') AND seq >= file.first_seq AND seq <= file.last_seq
"""


class _Part(NamedTuple):
    """What of one file counts: its lines of the sequence numbers first_seq .. last_seq. `number`: of the file."""

    file: File
    number: int
    first_seq: int
    last_seq: int


def load(database: Database, evidence: Evidence, sizes: Mapping[str, int]) -> list[str]:
    """Fill `events` from good files and tails, and `routers` (whose log is given, numbered in order of their keys).

    Returns the files with a line that is not as the schema says, or with other lines than their footers tell of, signed
    as they are; they do not count.
    """
    database.make("words")
    database.make("events")
    database.run("CREATE TABLE file (path VARCHAR, number INTEGER, router INTEGER, first_seq BIGINT, last_seq BIGINT)")
    database.run("CREATE TABLE routers (router INTEGER, key VARCHAR, is_whole BOOLEAN, pruned_to BIGINT)")
    numbers = {log.router: number for number, log in enumerate(evidence.logs)}
    if numbers:
        rows = [(number, router, False, 0) for router, number in numbers.items()]
        database.connection.executemany("INSERT INTO routers VALUES (?, ?, ?, ?)", rows)
    parts = _parts(evidence.files)
    if unlike := _read_readable(database, numbers, parts, sizes) if parts else []:
        return unlike
    return contradicted(database, evidence.seals, {part.file.path: part.number for part in parts})


def _parts(files: Iterable[File]) -> list[_Part]:
    """A tail's lines that a good file, or a tail before it, has too count there."""
    counted = [file for file in files if file.status in ("good", "tail") and file.router is not None]
    covered: dict[str | None, list[tuple[int, int]]] = {file.router: [] for file in counted}
    parts = []
    for number, file in enumerate(sorted(counted, key=lambda file: (file.status != "good", file.path))):
        free = [(file.first_seq, file.last_seq)]
        if file.status == "tail":
            free = missing(file.first_seq, file.last_seq, covered[file.router])
        parts += [_Part(file, number, first, last) for first, last in free if first <= last]
        covered[file.router].append((file.first_seq, file.last_seq))
    return parts


def _read_readable(
    database: Database, numbers: Mapping[str, int], parts: list[_Part], sizes: Mapping[str, int]
) -> list[str]:
    """Read them; if a line cannot be, each half apart. Returns the files that are to blame."""
    paths = sorted({part.file.path for part in parts})
    line_bytes = min(LINE_BYTES, max(sizes[path] for path in paths))
    try:
        _read(database, numbers, parts, line_bytes)
    except _UNLIKE:
        if len(paths) == 1:
            return [] if _read_long(database, numbers, parts, line_bytes) else paths
        first = set(paths[: len(paths) // 2])
        halves = [part for part in parts if part.file.path in first], [p for p in parts if p.file.path not in first]
        return [path for half in halves for path in _read_readable(database, numbers, half, sizes)]
    return []


def _read_long(database: Database, numbers: Mapping[str, int], parts: list[_Part], line_bytes: int) -> bool:
    """Whether the file can be read after all, because only its lines were too long."""
    path = parts[0].file.path
    longest = longest_line(path)
    if longest > LINE_BYTES_MAX:
        raise AuditFailed(f"{path} has a line of {longest} bytes; at most {LINE_BYTES_MAX} can be read")
    if longest <= line_bytes:
        return False
    try:
        _read(database, numbers, parts, longest)
    except _UNLIKE:
        return False
    return True


def _read(database: Database, numbers: Mapping[str, int], parts: list[_Part], line_bytes: int) -> None:
    """Through links with plain names, because DuckDB takes a path for a pattern and for UTF-8."""
    links = database.directory / "files"
    links.mkdir()
    rows: dict[str, list[tuple[object, ...]]] = {}
    for part in parts:
        span = part.number, numbers[str(part.file.router)], part.first_seq, part.last_seq
        rows.setdefault(part.file.path, []).append(span)
    database.run("DELETE FROM file")
    values = []
    for number, (path, spans) in enumerate(rows.items()):
        link = links / f"{number}.jsonl"
        link.symlink_to(os.path.abspath(path))  # noqa: PTH100 - a link is resolved by the system
        values += [(str(link), *span) for span in spans]
    database.connection.executemany("INSERT INTO file VALUES (?, ?, ?, ?, ?)", values)
    try:
        database.run(
            _EVENTS.replace("{columns}", columns_read()),
            {
                "paths": f"{exact(str(links))}/*.jsonl",
                "line_bytes": line_bytes + 1,
                "epoch_ns": EPOCH_NS,
                "count_max": COUNT_MAX,
            },
        )
    finally:
        for link in links.iterdir():
            link.unlink()
        links.rmdir()


def columns_read() -> str:
    """What an audit reads of a line, as DuckDB's struct of names and types."""
    return "{" + ", ".join(f"{quoted(name)}: {quoted(_TYPES[COLUMNS[name]])}" for name in NEEDED) + "}"


def gaps(database: Database) -> list[Gap]:
    """Events that a router found missing itself when it sealed its log."""
    found = database.connection.execute(
        "SELECT key, seq, n FROM events JOIN routers USING (router)"
        " WHERE event = 'log_gap' AND map_contains(fields, 'missing')"
    )
    return [Gap(*row) for row in found.fetchall()]


def witnesses(database: Database) -> list[Witness]:
    """Heads of logs that routers heard from their neighbours."""
    found = database.connection.execute(
        "SELECT DISTINCT key, fields['peer'], try_cast(fields['head_seq'] AS BIGINT) AS head_seq, fields['head_digest']"
        " FROM events JOIN routers USING (router)"
        " WHERE event = 'link' AND head_seq IS NOT NULL AND fields['peer'] IS NOT NULL"
        " AND fields['head_digest'] IS NOT NULL"
    )
    return [Witness(*row) for row in found.fetchall()]
