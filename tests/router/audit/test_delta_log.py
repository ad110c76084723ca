"""Of a Delta table, the files count that its transaction log says are in force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from router.audit import delta_log
from router.audit.ask.answer import NoAnswer, answer, check_output
from router.audit.database import AuditFailed
from router.audit.delta_log import delta_table
from router.audit.put_in_place import table_files
from router.cli import main

FIELDS = [
    {"name": "n", "type": "long", "nullable": True, "metadata": {}},
    {"name": "ids", "type": {"type": "array", "elementType": "string", "containsNull": True}},
    {"name": 'a"b', "type": "date"},
]
SCHEMA = {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": FIELDS})}}
Action = dict[str, Any]


def add(path: str, **more: Any) -> Action:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, **more}}


def remove(path: str) -> Action:
    return {"remove": {"path": path, "dataChange": True}}


def commit(table: Path, version: int, *actions: Action) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    lines = [{"commitInfo": {"operation": "WRITE"}}, *actions]
    (log / f"{version:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def checkpoint(table: Path, name: str, *paths: str) -> None:
    rows = " UNION ALL ".join(f"SELECT {{'path': '{path}'}} AS add, NULL AS metaData" for path in paths)
    schema = json.dumps(SCHEMA["metaData"]).replace("'", "''")
    rows += f" UNION ALL SELECT NULL, from_json('{schema}', '{{\"schemaString\": \"VARCHAR\"}}')"
    duckdb.execute(f"COPY ({rows}) TO '{table}/_delta_log/{name}.parquet' (FORMAT parquet)")


def in_force(table: Path) -> list[str]:
    return [str(path.relative_to(table)) for path in delta_table(table).files]


def test_files_that_were_overwritten_count_no_more(tmp_path: Path) -> None:
    commit(tmp_path, 0, SCHEMA, add("old"), add("date=2026-11-30/kept%20so"))
    commit(tmp_path, 1, add("new"), remove("old"), add("both"), remove("both"))
    assert in_force(tmp_path) == ["both", "date=2026-11-30/kept so", "new"]


@pytest.mark.parametrize(
    "parts", [("checkpoint",), ("checkpoint.0000000001.0000000002", "checkpoint.0000000002.0000000002")]
)
def test_a_checkpoint_stands_for_the_commits_that_are_missing(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """An earlier one does not count, nor a later one of which a part is missing."""
    commit(tmp_path, 11, remove("a"), add("c"))
    checkpoint(tmp_path, f"{5:020}.checkpoint", "before")
    for part in parts:
        checkpoint(tmp_path, f"{10:020}.{part}", "a", "b")
    checkpoint(tmp_path, f"{11:020}.checkpoint.0000000001.0000000002", "half")
    assert in_force(tmp_path) == ["b", "c"]
    assert delta_table(tmp_path).columns == {"n": "BIGINT", "ids": "VARCHAR[]", 'a"b': "VARCHAR"}


def test_a_log_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that a checkpoint stands for do not count."""
    commit(tmp_path, 0, SCHEMA, add("a" * 100_000))
    checkpoint(tmp_path, f"{0:020}.checkpoint", "a")
    monkeypatch.setattr(delta_log, "LOG_BYTES_MAX", 20_000)
    commit(tmp_path, 1, add("b"))
    assert in_force(tmp_path) == ["a", "b"]
    commit(tmp_path, 2, remove("c" * 20_000))
    with pytest.raises(AuditFailed, match=r"it has .* bytes to read, more than 20,000\)"):
        delta_table(tmp_path)


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ((add("x", deletionVector={"storageType": "u"}),), "deleted by deletion vectors"),
        ((add("s3a://bucket/x.parquet"),), "names a file elsewhere"),
        ((add("../x.parquet"),), "names a file elsewhere"),
        (({"add": {}},), "cannot be read"),
        (({"metaData": {"schemaString": "{"}},), "its schema cannot be read"),
    ],
)
def test_what_is_not_read_is_refused_with_a_remedy(tmp_path: Path, actions: tuple[Action, ...], said: str) -> None:
    commit(tmp_path, 0, *actions)
    with pytest.raises(AuditFailed, match=rf"{said}.*: write the table as Parquet"):
        delta_table(tmp_path)


def test_a_log_with_a_gap_or_none_or_rubbish_is_refused(tmp_path: Path) -> None:
    gap, none, rubbish = (tmp_path / name for name in ("gap", "none", "rubbish"))
    commit(gap, 0, add("x"))
    commit(gap, 2, add("y"))
    (none / "_delta_log").mkdir(parents=True)
    commit(rubbish, 1, add("x"))
    (rubbish / "_delta_log" / f"{0:020}.checkpoint.parquet").write_bytes(b"rubbish")
    for table, said in ((gap, "its commit 1 is missing"), (none, "no commit"), (rubbish, "its checkpoint 0")):
        with pytest.raises(AuditFailed, match=said):
            delta_table(table)


def run_table(out: Path, **verdicts: str) -> Path:
    """Write the table `audit_run` with a file for each verdict; return its place."""
    table = out / "audit_run"
    table.mkdir(parents=True)
    for name, verdict in verdicts.items():
        duckdb.execute(f"COPY (SELECT '{verdict}' AS verdict) TO '{table}/{name}.parquet' (FORMAT parquet)")
    return table


def test_a_job_that_has_ended_is_answered_although_its_mark_lies_beside(tmp_path: Path) -> None:
    table = run_table(tmp_path, mark="unfinished", done="bad")
    commit(table, 0, SCHEMA, add("mark.parquet"))
    with pytest.raises(NoAnswer, match="is unfinished"):
        check_output(tmp_path)
    commit(table, 1, add("done.parquet"), remove("mark.parquet"))
    assert table_files(tmp_path, "audit_run") == [table / "done.parquet"]
    check_output(tmp_path)
    assert answer(tmp_path, "SELECT verdict FROM audit_run", ["audit_run"]).rows == (("bad",),)


def test_a_table_without_rows_has_no_file_and_is_there(tmp_path: Path) -> None:
    commit(run_table(tmp_path, done="bad"), 0, add("done.parquet"))
    commit(tmp_path / "claims", 0, SCHEMA)
    found = answer(tmp_path, "SELECT * FROM claims", ["claims"])
    assert (found.columns, found.rows) == (("n", "ids", 'a"b'), ())


def test_the_command_tells_why_a_table_cannot_be_read(tmp_path: Path) -> None:
    commit(run_table(tmp_path, done="bad"), 1, add("done.parquet"))
    done = CliRunner().invoke(main, ["ask", str(tmp_path), "this audit"])
    assert done.exit_code == 1 and "its commit 0 is missing" in done.stderr
