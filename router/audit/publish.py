"""Write the files of `--out DIR`: the gold tables as Parquet, the summary as JSON, the report as a page."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from router.audit.database import AuditFailed, Database, exact, quoted, scratch
from router.audit.disk_space import NO_ROOM, no_room
from router.audit.listing import Listing
from router.audit.put_in_place import HISTORY, check_history, put_in_place
from router.audit.signing.digests import file_digests, table_digests
from router.audit.signing.signature import FILE as SIGNATURE
from router.audit.signing.signature import sign
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from spark_analytics.judgement import gold_sql
from spark_analytics.judgement.conflicts import CLAIMS
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.journey import STEPS_MAX, WAY_COLUMNS, clocks_of, ways
from spark_analytics.judgement.reached import REACHED
from spark_analytics.report import finding_table
from spark_analytics.report.history import COLUMNS, history_row
from spark_analytics.report.page import render

GOLD = (
    "delivery", "message", "hop_latency", "queue_minute", "route_change", "abuse_hour", "custody", "audit_window",
    *gold_sql.NAMES, "log_coverage", "data_quality", "quarantine", "claims", "finding", "audit_run",
    HISTORY,
)  # fmt: skip
SUMMARY, PAGE = "summary.json", "report.html"
_COUNTS = ", ".join(f"count(*) FILTER ({which}) AS {name}" for name, which in REACHED.items())
_OF_KEYS = ("router", "recipient", "peer", "signed_by")
_LEDGER = {
    "log_coverage": "router VARCHAR, segments BIGINT, first_seq BIGINT, last_seq BIGINT, whole BOOLEAN,"
                    " pruned_to BIGINT, problems VARCHAR[]",
    "data_quality": '"check" VARCHAR, router VARCHAR, count BIGINT',
    "quarantine": "path VARCHAR, router VARCHAR, status VARCHAR, first_seq BIGINT, last_seq BIGINT, lines BIGINT,"
                  " problems VARCHAR[]",
    "claims": "claim VARCHAR, router VARCHAR, peer VARCHAR, count BIGINT, seq BIGINT, file VARCHAR,"
              " accepted_seq BIGINT, accepted_file VARCHAR, id VARCHAR",
    "audit_run": "engine VARCHAR, as_of VARCHAR, verdict VARCHAR, run VARCHAR",
    "finding": ", ".join(map(" ".join, finding_table.COLUMNS.items())),
    HISTORY: ", ".join(map(" ".join, COLUMNS.items())),
}  # fmt: skip
FILES = frozenset((*(f"{table}.parquet" for table in GOLD), SUMMARY, PAGE, SIGNATURE, *GOLD, "events", "events_raw"))
"""Names that an earlier audit may have left. The Spark engine makes a directory of each table, and keeps the events
too; its job also keeps the unprocessed lines."""


def parent(out: Path) -> Path:
    """Return the parent directory of `out`, created if missing; raise `AuditFailed` if `out` holds anything but an
    earlier audit, or a history that cannot be taken over."""
    found = out.absolute().parent
    try:
        strange = sorted(path.name for path in out.iterdir() if path.name not in FILES) if out.exists() else []
        if strange:
            raise AuditFailed(f"{out} holds {strange[0]}, which is not a file of an audit: name another directory")
        found.mkdir(parents=True, exist_ok=True)
        check_history(out)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise AuditFailed(no_room(found, found)) from None
        raise AuditFailed(f"{error.filename or out}: {error.strerror}; name a directory that can be written") from None
    return found


def publish(
    database: Database, evidence: Evidence, summary: dict[str, Any], out: Path, listing: Listing, as_of_ns: int
) -> None:
    """Write everything beside `out`, and rename it at the end; an earlier audit stays until then, and its history
    after."""
    try:
        with scratch(parent(out)) as directory:
            new = directory / "new"
            new.mkdir()
            _write(database, evidence, summary, new, as_of_ns)
            texts = partial(write_texts, summary, new, listing.key_names, listing.filing.key)
            put_in_place(new, out, directory / "old", texts)
    except OSError as error:
        raise AuditFailed(f"{error.filename or out}: {error.strerror}; the audit could not be written there") from None


def write_texts(summary: dict[str, Any], directory: Path, names: Mapping[str, str], key: SigningKey | None) -> None:
    """Write the summary with the digests of the tables in that directory, the page, and with a `key` the signature.
    `names`: the names of keys (in hex) for the page."""
    files = file_digests(directory)
    summary["run"]["tables"] = table_digests(files)
    for name, text in ((SUMMARY, json.dumps(summary, indent=1) + "\n"), (PAGE, page(summary, names))):
        data = text.encode("utf-8")
        (directory / name).write_bytes(data)
        files[name] = sha256(data).hexdigest()
    if key is not None:
        sign(directory, files, key, int(time.time()))


def _write(database: Database, evidence: Evidence, summary: dict[str, Any], directory: Path, as_of_ns: int) -> None:
    for table in ("audit_window", "stop", "message", "flow"):
        database.make(table)
    _follow(database)
    summary["run"] |= next(iter(database.rows(f"SELECT {_COUNTS} FROM message")))
    _evidence(database, evidence, summary, as_of_ns)
    for table in GOLD:
        path = os.fspath(directory / f"{table}.parquet")
        source = _added_up(database, table, directory) if table in gold_sql.NAMES else table
        rows = f"SELECT {_columns(database, source)} FROM {source}"
        database.run(f"COPY ({rows}) TO {quoted(path)} (FORMAT parquet, COMPRESSION zstd)")


def _follow(database: Database) -> None:
    """Fill `way` with the hops of every path, as far as these are not too many."""
    database.make("step")
    [count] = database.rows("SELECT count(*) AS steps FROM step")
    if count["steps"] > STEPS_MAX:
        return
    bounds = database.rows("SELECT DISTINCT router, taker, lower_ns, upper_ns FROM handover")
    pairs = ((row["router"], row["taker"], row["lower_ns"], row["upper_ns"]) for row in bounds)
    found = ways(
        ((row["path"], row["router"], row["neighbour"]) for row in database.rows("FROM step")), clocks_of(pairs)
    )
    if rows := [way.row() for way in found]:
        lists = ", ".join(f"unnest(?::{'UBIGINT' if name == 'path' else 'BIGINT'}[])" for name in WAY_COLUMNS)
        database.run(f"INSERT INTO way SELECT {lists}", [list(column) for column in zip(*rows, strict=True)])


def _added_up(database: Database, table: str, directory: Path) -> str:
    """Return what to select a table of `gold_sql` from, made of those of `tables/flow.sql` and of the rows of
    `delivery` that were written: its text, or, if others read it too, its name."""
    parts = {name: name for name in gold_sql.SOURCES} | {
        "delivery": f"read_parquet({quoted(exact(os.fspath(directory / 'delivery.parquet')))})",
        **{name: f"getvariable('{name}')" for name in gold_sql.NUMBERS},
    }
    text = gold_sql.TEXTS[table].format(**parts)
    if table not in gold_sql.SOURCES:
        return f"({text})"
    database.run(f"CREATE TABLE {table} AS {text}")
    return table


def page(summary: dict[str, Any], names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the audit's page. Keys (in hex) are shown by these names; those of routers and recipients without one as
    addr1… text, as all commands print them."""
    keys = set(_keys(summary))

    def spelled(found: re.Match[str]) -> str:
        return key_text("addr", bytes.fromhex(found[0])) if found[0] in keys else found[0]

    told = {key_text("addr", bytes.fromhex(key)) if key in keys else key: name for key, name in names.items()}
    return render(json.loads(re.sub(r"\b[0-9a-f]{64}\b", spelled, json.dumps(summary))), told)


def _keys(value: Any, name: str = "") -> Iterator[str]:
    """Yield every text in fields that hold the key of a router, recipient or neighbour."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _keys(one, key)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _keys(one, name)
    elif isinstance(value, str) and name in _OF_KEYS:
        yield value


def _columns(database: Database, source: str) -> str:
    """Return all columns of a table, or of a text in parentheses, every integer as BIGINT, as Spark publishes it: the
    tables keep some narrower."""
    told = database.rows(f"DESCRIBE SELECT * FROM {source}")
    names = [(f'"{row["column_name"]}"', row["column_type"]) for row in told]
    return ", ".join(f"{name}::BIGINT AS {name}" if kind == "INTEGER" else name for name, kind in names)


def _evidence(database: Database, evidence: Evidence, summary: dict[str, Any], as_of_ns: int) -> None:
    """Make the tables about the audit itself."""
    rows: dict[str, list[list[Any]]] = {
        "log_coverage": [[*log[:6], list(log.problems)] for log in evidence.logs],
        "data_quality": [[row["check"], row["router"], row["count"]] for row in summary["quality"]],
        "quarantine": [
            [*file, [str(problem) for problem in evidence.problems if problem.path == file.path]]
            for file in evidence.files
            if file.status in ("bad", "fork", "former", "foreign")
        ],
        "claims": [[row[name] for name in CLAIMS] for row in summary["claims"]],
        "finding": [[*row] for row in finding_table.finding_rows(summary)],
        "audit_run": [[summary["engine"], summary["as_of"], summary["verdict"], json.dumps(summary["run"])]],
        HISTORY: [[*history_row(summary, as_of_ns, time.time_ns())]],
    }
    for table, columns in _LEDGER.items():
        database.run(f"CREATE TABLE {table} ({columns})")
        if rows[table]:
            kinds = [column.rpartition(" ")[2] for column in columns.split(",")]
            lists = ", ".join(f"unnest(?::{kind}[])" for kind in kinds)
            database.run(
                f"INSERT INTO {table} SELECT {lists}", [list(column) for column in zip(*rows[table], strict=True)]
            )
