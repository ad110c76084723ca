"""The audit's private directory exists only while it is used; errors of the database are explained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import pytest

from router.audit.database import (
    ALONE_BYTES,
    MEMORY_BYTES_MIN,
    UNLOCKED_S,
    AuditFailed,
    cores,
    database,
    scratch,
    threads_for,
)

HOLD = """
import sys, time
from pathlib import Path
from threading import Timer
from router.audit.database import scratch
with scratch(Path(sys.argv[1])) as directory:
    (directory / "table").touch()
    print(directory, flush=True)
    time.sleep(60)
"""


def left(near: Path, name: str, age_s: float) -> Path:
    """Return a directory with a file in it, both of that age."""
    directory = near / f".router-audit-{name}"
    directory.mkdir()
    (directory / "table").touch()
    for path in (directory / "table", directory):
        os.utime(path, (time.time() - age_s,) * 2)
    return directory


def test_a_directory_goes_when_whoever_used_it_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        with scratch(tmp_path) as ours, scratch(tmp_path):
            assert ours.exists() and (theirs / "table").exists()
        other.kill()
        other.wait()
        assert theirs.exists()
    with scratch(tmp_path) as ours:
        assert list(tmp_path.iterdir()) == [ours]
    assert list(tmp_path.iterdir()) == []


def test_without_a_lock_it_goes_after_a_day_without_change(tmp_path: Path) -> None:
    old, young = left(tmp_path, "old", UNLOCKED_S + 60), left(tmp_path, "young", UNLOCKED_S - 60)
    used = left(tmp_path, "used", UNLOCKED_S + 60)
    os.utime(used / "table")
    with scratch(tmp_path):
        pass
    assert (old.exists(), young.exists(), used.exists()) == (False, True, True)


def test_what_only_has_such_a_name_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "lock").touch()
    (tmp_path / ".router-audit-link").symlink_to(tmp_path / "mine")
    (tmp_path / ".router-audit-file").touch()
    left(tmp_path, "gone", 0).joinpath("lock").touch()
    with scratch(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"mine", ".router-audit-link", ".router-audit-file"}
    assert (tmp_path / "mine" / "lock").exists()


def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(AuditFailed, match=rf"the disk of {tmp_path} is full: .* with --out"), scratch(tmp_path):
        Path("/dev/full").write_text("tail")
    with pytest.raises(AuditFailed, match=rf"the disk of {tmp_path} is full: .* TMPDIR"), scratch():
        Path("/dev/full").write_text("tail")
    with (
        pytest.raises(AuditFailed, match=rf"^the disk of {tmp_path} is full: .* with --out [^()]*$"),
        database(MEMORY_BYTES_MIN, tmp_path) as tables,
    ):
        tables.run("COPY (SELECT 1) TO '/dev/full' (FORMAT csv, USE_TMP_FILE false)")
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_a_disk_are_told_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(AuditFailed, match="audit again"), database(MEMORY_BYTES_MIN, tmp_path) as tables:
        tables.run("FROM read_csv('/nowhere/at/all.csv')")
    with pytest.raises(PermissionError), scratch(tmp_path):
        raise PermissionError(13, "Permission denied")


def test_a_signal_ends_what_it_does_at_once(tmp_path: Path) -> None:
    with database(MEMORY_BYTES_MIN, tmp_path) as tables:
        timer = Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            tables.run("SELECT sum(one.range * two.range) FROM range(1000000) AS one, range(1000000) AS two")
        timer.join()
        assert tables.rows("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.parametrize(("log_bytes", "threads"), [(0, 1), (ALONE_BYTES - 1, 1), (ALONE_BYTES, cores())])
def test_few_lines_are_audited_by_one_thread(tmp_path: Path, log_bytes: int, threads: int) -> None:
    with database(MEMORY_BYTES_MIN, tmp_path, threads_for(log_bytes)) as tables:
        assert tables.rows("SELECT current_setting('threads') AS threads") == [{"threads": threads}]
