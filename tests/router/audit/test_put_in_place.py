"""The place of an audit's tables: they replace an earlier audit in one step, and keep its history, also two at once."""

from __future__ import annotations

import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import duckdb
import pytest
from samples.audit_logs import LATE, SECOND, START, Log

from router.audit import put_in_place as place
from router.audit.ask.answer import answer
from router.audit.ask.catalogue import all_questions
from router.audit.database import AuditFailed
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.audit.signing.digests import file_digests
from spark_analytics.report.history import COLUMNS

TYPES = ", ".join(map(" ".join, COLUMNS.items()))


def logs(directory: Path, messages: int) -> Path:
    log = Log()
    log.accepted(1, range(messages))
    log.outward("delivered", [(1, messages)])
    log.state("stop", LATE)
    shutil.rmtree(directory, ignore_errors=True)
    return log.write(directory)


def audited(directory: Path, out: Path, messages: int) -> None:
    audit(list_logs([logs(directory, messages)]), AuditSpan(START + LATE * SECOND), out=out)


def history(out: Path) -> list[int]:
    """Return how many messages each run found, in the order of the rows."""
    files = [os.fspath(one) for one in place.table_files(out, place.HISTORY)]
    return [row[0] for row in duckdb.execute("SELECT messages FROM read_parquet(?)", [files]).fetchall()]


def changes(out: Path) -> dict[str, tuple[int | None, int]]:
    question = all_questions()["what changed since the last audit"]
    found = answer(out, question.filled({}), question.tables).dicts()
    return {row["figure"]: (row["before"], row["now"]) for row in found}


def test_each_run_adds_a_row_and_the_last_two_are_compared(tmp_path: Path) -> None:
    out = tmp_path / "out"
    audited(tmp_path / "logs", out, 3)
    assert changes(out)["messages"] == (None, 3)
    audited(tmp_path / "logs", out, 5)
    audited(tmp_path / "logs", out, 4)
    assert history(out) == [3, 5, 4]
    assert changes(out) == dict.fromkeys(("messages", "owed", "delivered"), (5, 4))


def written(directory: Path, messages: int, name: str = "audit_history.parquet") -> Path:
    """Write the files of an audit with one row of history."""
    path = directory / name
    path.parent.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE found ({TYPES})")
        connection.execute(f"INSERT INTO found (written_ns, messages) VALUES ({messages}, {messages})")
        connection.execute(f"COPY found TO '{path}' (FORMAT parquet)")
    return directory


def test_a_history_that_spark_wrote_goes_on_as_one_file(tmp_path: Path) -> None:
    out = written(tmp_path / "out", 1, "audit_history/run=12ab/part-0.zstd.parquet")
    new = written(tmp_path / "new", 2, "audit_history/run=34cd/part-0.zstd.parquet")
    place.put_in_place(new, out, tmp_path / "old")
    assert history(out) == [1, 2]
    assert [path.name for path in out.iterdir()] == ["audit_history.parquet"]


def test_audits_that_end_at_once_all_have_their_row(tmp_path: Path) -> None:
    count = 6
    made = [written(tmp_path / f"new{number}", number) for number in range(1, count + 1)]
    is_begun = Barrier(count)

    def put(new: Path) -> None:
        is_begun.wait()
        place.put_in_place(new, tmp_path / "out", new.with_name(f"old-{new.name}"))

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(put, made))
    assert history(tmp_path / "out") == [*range(1, count + 1)]


def test_only_the_newest_rows_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "RUNS_MAX", 2)
    for number in (1, 2, 3):
        new = written(tmp_path / f"new{number}", number)
        place.put_in_place(new, tmp_path / "out", tmp_path / f"old{number}")
    assert history(tmp_path / "out") == [2, 3]


def test_a_history_that_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    out = written(tmp_path / "out", 3)
    (out / "audit_history.parquet").write_bytes(b"rubbish")
    with pytest.raises(AuditFailed, match="put back an unharmed copy, or move it away, and audit again"):
        audited(tmp_path / "logs", out, 4)
    assert (out / "audit_history.parquet").read_bytes() == b"rubbish"


def test_a_place_that_stays_locked_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "WAIT_S", 0)
    new = written(tmp_path / "new", 1)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(AuditFailed, match=r"has held .* locked"):
            place.put_in_place(new, tmp_path / "out", tmp_path / "old")
    finally:
        os.close(handle)
    place.put_in_place(new, tmp_path / "out", tmp_path / "old")
    assert history(tmp_path / "out") == [1]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_the_earlier_audit_is_kept_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    new, out, old = (tmp_path / name for name in ("new", "out", "old"))
    for directory in (new, out):
        directory.mkdir()
        (directory / "of").write_text(directory.name)
    if not can_exchange:
        monkeypatch.setattr(place, "_exchanged", lambda new, out: False)
    place.give_name(new, out, old)
    assert ((out / "of").read_text(), (old / "of").read_text()) == ("new", "out")
    assert not new.exists()


def test_files_in_hidden_folders_are_no_part_of_a_table(tmp_path: Path) -> None:
    """No signature covers them: `router ask` would answer from what somebody has added to a signed audit."""
    parts = [tmp_path / "custody" / name for name in ("date=2026-01-01/part-0.parquet", "part-1.parquet")]
    hidden = [tmp_path / "custody" / name for name in (".x/part.parquet", "_temporary/part.parquet", ".part.parquet")]
    for path in (*parts, *hidden):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    assert place.table_files(tmp_path, "custody") == parts
    assert not any(file_digests(tmp_path).keys() & {str(path.relative_to(tmp_path)) for path in (hidden[0], hidden[2])})
