"""Load the files that count into the table `events`: every line read once, with the columns that an audit needs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb

from router.audit.database import AuditFailed, Database, exact, quoted
from router.audit.file_facts import file_facts
from router.audit.joined_files import MARK, PACKED_SMALL_BYTES, SMALL_BYTES, batches, join
from router.audit.sealed import contradicted
from router.audit.spelling import Care
from router.disk.log.packed import NotUnpacked, is_packed, open_text
from spark_analytics.judgement.chain import missing
from spark_analytics.judgement.door_sql import UNJOINED
from spark_analytics.judgement.evidence import Evidence, File, Gap, Witness
from spark_analytics.judgement.line_grammar import LINE_BYTES_MAX
from spark_analytics.judgement.presence_sql import HISTORY
from spark_analytics.judgement.schema import BYTES_MAX, COLUMNS, EPOCH_NS, EXPIRY_MAX, TTL_S_MAX, UNLIKE

LINE_BYTES = LINE_BYTES_MAX
"""The longest line that DuckDB reads, and the size of its buffers."""
NEEDED = (
    "event", "seq", "n", "t", "mono", "router", "boot", "kind", "source", "group", "signer", "destination", "peer",
    "first", "count", "ids", "sizes", "ttls", "expiries", "recipients", "recipient", "ranges", "parcel", "reason",
    "link", "depth", "bytes", "fields",
)  # fmt: skip
_TYPES = {
    "BIGINT": "BIGINT", "STRING": "VARCHAR", "ARRAY<BIGINT>": "BIGINT[]", "ARRAY<STRING>": "VARCHAR[]",
    "ARRAY<ARRAY<BIGINT>>": "BIGINT[][]", "MAP<STRING,STRING>": "MAP(VARCHAR, VARCHAR)",
}  # fmt: skip
_UNLIKE = (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException)
"""The errors of DuckDB for a line that is not JSON, not UTF-8, or has another type in a column."""
PLAIN = re.compile(r"(/[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]*)+")
"""The paths that DuckDB reads as they are."""
_KEY = "[0-9a-f]{64}|[0-9a-f]{32}"
"""The spelling of a key or a boot."""
_EVENTS = """
INSERT INTO events
SELECT
    router_number, file_number, seq,
    CASE WHEN event <> 'accepted' AND recipient IS NOT NULL THEN ranges[1][2] ELSE n END AS n,
    t, mono, boot,
    CASE WHEN is_odd THEN $unlike ELSE event END AS event,
    kind, coalesce(source, "group", signer) AS signer, destination, peer, count,
    CASE WHEN event IN ('accepted', $history) OR event = 'refused' AND recipient IS NULL AND reason = $unjoined
        THEN ids END AS ids, recipients,
    CASE WHEN event = 'accepted' THEN least(
        t + least(list_max(ttls), $ttl_max_s) * 1_000_000_000,
        $epoch_ns + least(list_max(expiries), $expiry_max) * 60_000_000_000
    ) END AS due_ns,
    list_max(ttls) AS ttl_s,
    CASE WHEN list_min(ttls) < list_max(ttls) OR list_min(expiries) < list_max(expiries) THEN list_transform(
        list_zip(ttls, expiries), lambda life: least(
            t + least(life[1], $ttl_max_s) * 1_000_000_000, $epoch_ns + least(life[2], $expiry_max) * 60_000_000_000
        )
    ) END AS lives,
    recipient, CASE WHEN event = 'accepted' THEN first ELSE parcel END AS parcel, ranges[1][1] AS range_first,
    CASE WHEN len(ranges) > 1 THEN ranges[2:] END AS more_ranges,
    reason, link, depth,
    at_most(CASE WHEN event = 'accepted' THEN list_sum(sizes) ELSE bytes END, $bytes_max)::BIGINT AS bytes,
    CASE WHEN event = 'accepted' AND list_min(sizes) < list_max(sizes) THEN sizes END AS sizes,
    list_max(expiries) AS expiry,
    CASE WHEN list_min(ttls) < list_max(ttls) OR list_min(expiries) < list_max(expiries) THEN ttls END AS ttls,
    CASE WHEN list_min(ttls) < list_max(ttls) OR list_min(expiries) < list_max(expiries) THEN expiries END AS expiries,
    fields
FROM (
    SELECT line.* REPLACE (coalesce(t, 0) AS t), file.router AS router_number, file.number AS file_number,
        seq BETWEEN file.first_seq AND file.last_seq AS is_within,
        line.router IS DISTINCT FROM file.key OR event = 'accepted' AND (
            n IS DISTINCT FROM count OR n * 64 IS DISTINCT FROM strlen(ids) OR n IS DISTINCT FROM len(sizes)
            OR n IS DISTINCT FROM len(ttls) OR n IS DISTINCT FROM len(expiries)
        ) OR CASE WHEN is_within THEN FALSE ELSE NOT regexp_full_match(
            concat_ws(' ', boot, source, "group", signer, destination, peer, recipient,
                array_to_string(recipients, ' ')),
            '[0-9a-f]{32}( [0-9a-f]{64})* ?'
        ) END AS is_odd
    FROM read_json(
        $paths, format = 'newline_delimited', records = 'true', compression = 'uncompressed', columns = {columns},
        maximum_object_size = $line_bytes{more}
    ) line
    {join}
    WHERE event NOT IN ('segment', 'seal')
)
WHERE is_within OR is_odd
"""


_EACH = (", filename = true", "JOIN file ON file.path = line.filename")
_JOINED = ("", f'LEFT JOIN file ON file.number = line."{MARK}"')
"""How a line finds its file: where each file is read by itself, and where they are joined."""


class _Part(NamedTuple):
    """The part of one file that counts: its lines of the sequence numbers first_seq .. last_seq. `number`: the file's
    number."""

    file: File
    number: int
    first_seq: int
    last_seq: int


def load(database: Database, evidence: Evidence, sizes: Mapping[str, int]) -> list[str]:
    """Fill `events` from good files and tails, and `routers` (those with a log here, numbered in order of their keys).

    Return the signed files with an invalid line, or with lines that do not match their footers; they do not count.
    """
    database.make("words")
    database.make("events")
    columns = "path VARCHAR, number INTEGER, router INTEGER, key VARCHAR, first_seq BIGINT, last_seq BIGINT"
    database.run(f"CREATE TABLE file ({columns})")
    database.run(
        "CREATE TABLE routers (router INTEGER, key VARCHAR, is_whole BOOLEAN, pruned_to BIGINT, is_restored BOOLEAN,"
        " hole_seq BIGINT, is_unbroken BOOLEAN)"
    )
    numbers = {log.router: number for number, log in enumerate(evidence.logs)}
    if numbers:
        rows = [(number, router, False, 0, False, 0, False) for router, number in numbers.items()]
        database.connection.executemany("INSERT INTO routers VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    parts = _parts(evidence.files)
    rest = _read_small(database, numbers, parts, sizes)
    if unlike := _read_rest(database, numbers, rest, sizes):
        return unlike
    database.make("keys")
    unlike = [path for path in _with_odd_keys(database, numbers, parts) if file_facts(path, Care.EXACT).is_odd]
    return unlike or contradicted(database, evidence.seals, {part.file.path: part.number for part in parts})


def _parts(files: Iterable[File]) -> list[_Part]:
    """Return the parts that count. A line of a tail that a good file or an earlier tail has too counts there."""
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


def _read_small(
    database: Database, numbers: Mapping[str, int], parts: list[_Part], sizes: Mapping[str, int]
) -> list[_Part]:
    """Read the small files joined; return the parts that are still to be read. A batch in which a line is wrong leaves
    nothing, so that each of its files is judged by itself."""
    most = {part.file.path: PACKED_SMALL_BYTES if is_packed(part.file.path) else SMALL_BYTES for part in parts}
    small = {part.number: part.file.path for part in parts if sizes[part.file.path] <= most[part.file.path]}
    rest = [part for part in parts if part.number not in small]
    if len(small) < 2:
        return parts
    for batch in batches((number, sizes[path]) for number, path in small.items()):
        place = database.directory / "joined.jsonl"
        left = join(((number, small[number]) for number in batch), place)
        joined = [part for part in parts if part.number in set(batch) - left]
        rest += [part for part in parts if part.number in left]
        _note(database, numbers, joined, {})
        database.run("BEGIN")
        try:
            _insert(database, [str(place)], _line_bytes([sizes[small[number]] for number in batch]), *_JOINED)
            is_right = not database.rows("SELECT 1 FROM events WHERE event = ? LIMIT 1", [UNLIKE])
        except _UNLIKE:
            is_right = False
        finally:
            place.unlink()
        database.run("COMMIT" if is_right else "ROLLBACK")
        rest += [] if is_right else joined
    return rest


def _line_bytes(sizes: Iterable[int]) -> int:
    """Return the bytes of the longest line, with its mark, that joined files of these sizes may hold."""
    return max(2 * SMALL_BYTES, min(LINE_BYTES, max(sizes)) + len(MARK) + 32)


def _read_rest(
    database: Database, numbers: Mapping[str, int], parts: list[_Part], sizes: Mapping[str, int]
) -> list[str]:
    """Read the plain files together, and each compressed one by itself, for its text lies on the disk meanwhile. Return
    the files to blame."""
    plain = [part for part in parts if not is_packed(part.file.path)]
    unlike = _read_readable(database, numbers, plain, sizes) if plain else []
    for path in sorted({part.file.path for part in parts if is_packed(part.file.path)}):
        own = [part for part in parts if part.file.path == path]
        unlike += _read_readable(database, numbers, own, sizes)
    return unlike


def _read_readable(
    database: Database, numbers: Mapping[str, int], parts: list[_Part], sizes: Mapping[str, int]
) -> list[str]:
    """Read the parts; if a line cannot be read, retry each half by itself. Return the files to blame."""
    paths = sorted({part.file.path for part in parts})
    try:
        return _read(database, numbers, parts, min(LINE_BYTES, max(sizes[path] for path in paths)))
    except _UNLIKE:
        if len(paths) == 1:
            return paths
        first = set(paths[: len(paths) // 2])
        halves = [part for part in parts if part.file.path in first], [p for p in parts if p.file.path not in first]
        return [path for half in halves for path in _read_readable(database, numbers, half, sizes)]


def _read(database: Database, numbers: Mapping[str, int], parts: list[_Part], line_bytes: int) -> list[str]:
    """Read the parts. Return the files that have a line of another router, or a line whose columns do not have the
    length that it states."""
    links = database.directory / "files"
    links.mkdir()
    places = {path: _place(path, links / f"{number}.jsonl") for number, path in enumerate({p.file.path for p in parts})}
    _note(database, numbers, parts, places)
    try:
        _insert(database, [exact(place) for place in places.values()], line_bytes + 1, *_EACH)
    finally:
        shutil.rmtree(links)
    odd = {row["file"] for row in database.rows("SELECT DISTINCT file FROM events WHERE event = ?", [UNLIKE])}
    return sorted({part.file.path for part in parts if part.number in odd})


def _note(database: Database, numbers: Mapping[str, int], parts: Sequence[_Part], places: Mapping[str, str]) -> None:
    """Put into `file` the parts that are read next. `places`: by which path each file is read."""
    keys = [str(part.file.router) for part in parts]
    database.run("DELETE FROM file")
    database.run(
        "INSERT INTO file SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)",
        [
            [places.get(part.file.path, "") for part in parts],
            [part.number for part in parts],
            [numbers[key] for key in keys],
            keys,
            [part.first_seq for part in parts],
            [part.last_seq for part in parts],
        ],
    )


def _insert(database: Database, paths: list[str], line_bytes: int, more: str, join: str) -> None:
    columns = columns_read() if join == _EACH[1] else f"{columns_read()[:-1]}, {quoted(MARK)}: 'BIGINT'}}"
    database.run(
        _EVENTS.replace("{columns}", columns).replace("{more}", more).replace("{join}", join),
        {
            "paths": paths,
            "line_bytes": line_bytes,
            "epoch_ns": EPOCH_NS,
            "ttl_max_s": TTL_S_MAX,
            "expiry_max": EXPIRY_MAX,
            "bytes_max": BYTES_MAX,
            "unlike": UNLIKE,
            "history": HISTORY,
            "unjoined": UNJOINED,
        },
    )


def _place(path: str, link: Path) -> str:
    """Return the path by which DuckDB reads a file: its own, or a link in its place if the name has characters that
    DuckDB takes for a pattern, another file system, or not for UTF-8; of a compressed file, that of its text."""
    if is_packed(path):
        return _unpacked(path, link)
    whole = os.path.abspath(path)  # noqa: PTH100 - a link is resolved by the system
    if PLAIN.fullmatch(whole):
        return whole
    os.symlink(whole, link)  # noqa: PTH211
    return str(link)


def _unpacked(path: str, place: Path) -> str:
    """Write the text of a compressed file, and return its path."""
    try:
        with open_text(path) as file, place.open("xb") as text:
            shutil.copyfileobj(file, text, SMALL_BYTES)
    except (NotUnpacked, FileNotFoundError):
        raise AuditFailed(f"{path} changed or went away while it was read: audit again") from None
    return str(place)


def _with_odd_keys(database: Database, numbers: Mapping[str, int], parts: Iterable[_Part]) -> list[str]:
    """Return the files of routers that have a line with an invalid key or boot, which are not checked before they are
    in `events`."""
    database.run(f"CREATE TABLE odd_key AS SELECT key FROM keys WHERE NOT regexp_full_match(key, '{_KEY}')")
    if not database.rows("SELECT key FROM odd_key LIMIT 1"):
        return []
    found = database.rows(
        "SELECT DISTINCT router FROM events WHERE recipient IN (FROM odd_key) OR peer IN (FROM odd_key)"
        " OR signer IN (FROM odd_key) OR destination IN (FROM odd_key) OR boot IN (FROM odd_key)"
        " OR list_has_any(recipients, (SELECT list(key) FROM odd_key))"
    )
    routers = {row["router"] for row in found}
    return sorted({part.file.path for part in parts if numbers[str(part.file.router)] in routers})


def columns_read() -> str:
    """Return the columns that an audit reads of a line, as DuckDB's struct of names and types."""
    return "{" + ", ".join(f"{quoted(name)}: {quoted(_TYPES[COLUMNS[name]])}" for name in NEEDED) + "}"


def gaps(database: Database) -> list[Gap]:
    """Return the events that a router itself found missing when it sealed its log."""
    found = database.connection.execute(
        "SELECT key, seq, n FROM events JOIN routers USING (router)"
        " WHERE event = 'log_gap' AND map_contains(fields, 'missing')"
    )
    return [Gap(*row) for row in found.fetchall()]


def witnesses(database: Database) -> list[Witness]:
    """Return the heads of logs that routers heard from their neighbours."""
    found = database.connection.execute(
        "SELECT key, fields['peer'], number_of_text(fields['head_seq']) AS head_seq, fields['head_digest'], max(t),"
        " max(seq)"
        " FROM events JOIN routers USING (router)"
        " WHERE event = 'link' AND head_seq IS NOT NULL AND fields['peer'] IS NOT NULL"
        " AND fields['head_digest'] IS NOT NULL GROUP BY ALL"
    )
    return [Witness(*row) for row in found.fetchall()]
