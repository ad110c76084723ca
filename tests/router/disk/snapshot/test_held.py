"""A database of another process is read as it was at one moment, while that process goes on committing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import lmdb
import pytest
from rigs.patience import HANG_S
from samples.stores import KEYS, opened

from router.core.routing.effects import Changes
from router.disk.room import DATA
from router.disk.snapshot import held
from router.disk.snapshot.held import HeldDatabase, HeldStream
from router.disk.snapshot.hold_limit import HoldLimit
from router.disk.snapshot.terms import SnapshotFault

ROOT = Path(__file__).parents[4]
ROWS = 300
WRITER = f"""
import lmdb, sys
with lmdb.open(sys.argv[1], map_size=64 << 20, sync=False, lock=sys.argv[2] == "locks") as environment:
    for line in sys.stdin:
        with environment.begin(write=True) as txn:
            for row in range({ROWS}):
                txn.put(row.to_bytes(2, "big"), line.strip().encode() * 500)
        print(line, end="", flush=True)
"""
HOLDER = """
import sys
from pathlib import Path
from router.disk.snapshot.held import HeldDatabase
from router.disk.snapshot.hold_limit import HoldLimit
held = HeldDatabase(Path(sys.argv[1]), HoldLimit(float(sys.argv[2])))
held.hold()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer(folder: Path, how: str = "locks") -> Iterator[Callable[[int], None]]:
    """Give what lets another process write a number into all rows, in one transaction."""
    command = [sys.executable, "-c", WRITER, str(folder), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def write(number: int) -> None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{number}\n"

        write(0)
        yield write
        process.communicate(timeout=HANG_S)


@contextmanager
def holder(folder: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(folder), str(seconds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        yield process


class CommitsWhenHeld(HoldLimit):
    """Lets another process commit as soon as a transaction has begun."""

    def __init__(self, write: Callable[[int], None]) -> None:
        super().__init__(HANG_S)
        self._write = write

    def hold(self) -> None:
        super().hold()
        self._write(1)


@pytest.fixture
def limit() -> Iterator[HoldLimit]:
    with closing(HoldLimit(HANG_S)) as found:
        yield found


def rows(copy: Path) -> set[bytes]:
    """Return the different values in a copy of a database; it has to have all rows."""
    with lmdb.open(str(copy), readonly=True, lock=False) as environment, environment.begin() as txn:
        assert txn.stat()["entries"] == ROWS
        return {value[:1] for _, value in txn.cursor()}


def read(content: HeldStream, copy: Path) -> None:
    copy.mkdir()
    with (copy / DATA).open("wb") as file:
        while data := content.read():
            file.write(data)


def test_a_moment_stays_while_another_process_commits_and_its_pages_are_used_again_later(
    tmp_path: Path, limit: HoldLimit
) -> None:
    with writer(tmp_path) as write, closing(HeldDatabase(tmp_path, limit)) as database:
        write(1)
        write(2)
        database.hold()
        for number in range(3, 9):
            write(number)
        with closing(HeldStream(database, tmp_path / "rest")) as content:
            read(content, tmp_path / "copy")
        assert content.is_whole() and rows(tmp_path / "copy") == {b"2"}
        size = (tmp_path / DATA).stat().st_size
        for number in range(3, 9):
            write(number)
        assert (tmp_path / DATA).stat().st_size == size, "it lets go of the moment when it has been copied"


def test_a_commit_between_the_transaction_and_the_heads_is_not_in_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head would be the newer one in the copy, which has neither its new pages nor those that it took."""
    monkeypatch.setattr(held, "FREE_PART_MAX", 1.0)  # half of a small file is free after a few commits
    with (
        writer(tmp_path) as write,
        closing(CommitsWhenHeld(write)) as limit,
        closing(HeldDatabase(tmp_path, limit)) as one,
    ):
        one.hold()
        with closing(HeldStream(one, tmp_path / "rest")) as content:
            read(content, tmp_path / "copy")
        assert content.is_whole() and rows(tmp_path / "copy") == {b"0"}


def test_pages_of_a_moment_are_copied_as_they_are_with_the_heads_of_that_moment(
    tmp_path: Path, limit: HoldLimit
) -> None:
    with writer(tmp_path) as write, closing(HeldDatabase(tmp_path, limit)) as database:
        write(2)
        database.hold()
        for number in range(3, 9):
            write(number)
        (tmp_path / "copy").mkdir()
        with (tmp_path / "copy" / DATA).open("wb") as copy:
            database.copy_raw(copy)
    assert rows(tmp_path / "copy") == {b"2"}


def test_a_writer_that_does_not_look_who_reads_is_named(tmp_path: Path, limit: HoldLimit) -> None:
    with writer(tmp_path, "no locks") as write, closing(HeldDatabase(tmp_path, limit)) as database:
        database.hold()
        write(1)
        write(2)
        with (
            closing(HeldStream(database, tmp_path / "rest")) as content,
            pytest.raises(SnapshotFault, match="start the node again, or stop it first"),
        ):
            read(content, tmp_path / "copy")


def test_who_reads_slowly_does_not_hold_the_moment(
    tmp_path: Path, limit: HoldLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(held, "CHUNKS_AHEAD", 2)
    with writer(tmp_path) as write, closing(HeldDatabase(tmp_path, limit)) as database:
        database.hold()
        with closing(HeldStream(database, tmp_path / "rest", spill_s=0)) as content:
            content._draining.join(HANG_S)
            assert "not held" in repr(database)
            write(1)
            read(content, tmp_path / "copy")
        assert rows(tmp_path / "copy") == {b"0"}
        assert not (tmp_path / "rest").exists()


def test_a_copy_that_nobody_reads_to_its_end_is_given_up(
    tmp_path: Path, limit: HoldLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(held, "CHUNKS_AHEAD", 2)
    with writer(tmp_path), closing(HeldDatabase(tmp_path, limit)) as database:
        database.hold()
        content = HeldStream(database, tmp_path / "rest")
        content.read()
        content.close()
        assert not [one for one in threading.enumerate() if one.name in ("read a database", "copy a database")]


def test_a_moment_that_is_held_for_too_long_is_given_up_and_told(
    tmp_path: Path, limit: HoldLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "HOLD_S_MAX", -1.0)
    with writer(tmp_path), closing(HeldDatabase(tmp_path, limit)) as database:
        database.hold()
        with (
            closing(HeldStream(database, tmp_path / "rest")) as content,
            pytest.raises(SnapshotFault, match="all the while the file grows"),
        ):
            read(content, tmp_path / "copy")


def test_a_stopped_process_that_holds_a_moment_is_ended_by_the_kernel(tmp_path: Path) -> None:
    with writer(tmp_path), holder(tmp_path, 0.2) as process:
        process.send_signal(signal.SIGSTOP)
        assert process.wait(HANG_S) == -signal.SIGKILL


def test_the_stores_next_commit_forgets_a_reader_that_was_killed(tmp_path: Path) -> None:
    with closing(opened(tmp_path, owner=KEYS[0])) as store, holder(tmp_path, HANG_S) as process:
        assert str(process.pid) in store._env.readers()
        process.kill()
        process.wait(HANG_S)
        store.apply(Changes(), 0)
        store.commit()
        assert str(process.pid) not in store._env.readers()


def test_a_store_whose_process_was_killed_goes_on_beside_a_reader(tmp_path: Path) -> None:
    """The process had begun a transaction, and so held LMDB's lock of writers."""
    opened(tmp_path).close()
    began = "import lmdb, sys; txn = lmdb.open(sys.argv[1]).begin(write=True); print(1, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", began, str(tmp_path)]
    with (
        holder(tmp_path, HANG_S),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None and process.stdout.readline()
        process.kill()
        process.wait(HANG_S)
        with closing(opened(tmp_path)) as store:
            store.apply(Changes(), 0)
            store.commit()


def test_a_file_that_is_shorter_than_its_pages_is_an_error_not_a_crash(tmp_path: Path, limit: HoldLimit) -> None:
    with writer(tmp_path):
        pass
    os.truncate(tmp_path / DATA, (tmp_path / DATA).stat().st_size // 2)
    with closing(HeldDatabase(tmp_path, limit)) as database:
        database.hold()
        with closing(HeldStream(database, tmp_path / "rest")) as content:
            read(content, tmp_path / "copy")
        assert not content.is_whole()
        assert "not held" not in repr(database), "it is held until its pages are copied as they are"
