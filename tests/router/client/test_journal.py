"""The journal: on disk when its calls return, bounded, for one process, and whole after a crash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio

from router.client.errors import JournalError
from router.client.journal import Head, Journal
from router.client.state_writer import StateWriter
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import expiry_min
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import IDS_MAX, AppState
from router.disk.state.environment import StateError

NOW_S = 1_800_000_000
IDS = [MessageId(number.to_bytes(32, "big")) for number in range(3000)]


class Written(Journal):
    """A journal with its writer at hand."""

    def __init__(self, path: Path, writer: StateWriter) -> None:
        super().__init__(path, writer)
        self.writer = writer

    def write(self, rows: Sequence[tuple[MessageId, int]], heads: dict[PublicKey, list[Head]] | None = None) -> None:
        """Write the rows, and the heads of groups; they are on disk when this returns."""
        for group, found in (heads or {}).items():
            self.keep_heads(group, partial(list, found))
        self.gather(rows, lambda: None)
        self.writer.state.commit(self.writer.take()[0], self.writer.now_min)

    def count(self) -> int:
        self.writer.state.change(lambda rows: AppBatch())
        with self.writer.state.reading() as rows:
            return rows.handled()

    def leave(self) -> None:
        self.close()
        self.writer.state.close()


def opened(path: Path, now_s: float = NOW_S, ids_max: int = IDS_MAX, on_failed: Callable[[], object] = dict) -> Written:
    state = AppState(path.with_name("state"), ids_max=ids_max)
    journal = Written(path, StateWriter(state, lambda: now_s, on_failed))
    journal.open()
    return journal


def rows(*ids: MessageId, until_s: int = NOW_S + 60) -> list[tuple[MessageId, int]]:
    return [(id, until_s) for id in ids]


def test_what_is_written_is_known_to_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = opened(path)
    journal.write(rows(*IDS[:1200]))
    journal.write(rows(*IDS[:3]))
    assert set(journal.known(IDS)) == set(IDS[:1200])
    assert path.stat().st_mode & 0o777 == 0o600
    journal.leave()
    journal = opened(path)
    assert set(journal.known(IDS[1100:1300])) == set(IDS[1100:1200]) and not journal.known([])
    journal.leave()


def test_who_moves_the_journal_away_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    group = PublicKey(bytes(32))
    journal = opened(path)
    journal.write(rows(IDS[0]), {group: [(IDS[1], 99_000_000)]})
    journal.leave()
    path.rename(tmp_path / "moved")
    journal = opened(path)
    assert not journal.known(IDS[:1]) and not journal.heads(group)
    journal.leave()
    journal = opened(tmp_path / "moved")
    assert set(journal.known(IDS[:2])) == {IDS[0]} and journal.heads(group) == [(IDS[1], 99_000_000)]
    journal.leave()


@pytest.mark.parametrize("left", [b"", bytes(34)])
def test_a_file_that_a_crash_left_unwritten_is_a_new_journal(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(left)
    for _ in range(2):
        journal = opened(path)
        journal.write(rows(IDS[0]))
        assert journal.known(IDS[:1])
        journal.leave()


def test_what_cannot_come_any_more_is_forgotten(tmp_path: Path) -> None:
    path, group = tmp_path / "journal", PublicKey(bytes(32))
    journal = opened(path)
    journal.write(
        rows(IDS[0], until_s=NOW_S) + rows(IDS[1], until_s=NOW_S + 1000), {group: [(IDS[0], expiry_min(NOW_S))]}
    )
    journal.leave()
    journal = opened(path, NOW_S + 599)
    assert journal.count() == 2 and not journal.heads(group)
    journal.leave()
    journal = opened(path, NOW_S + 601)
    assert set(journal.known(IDS[:2])) == {IDS[1]}
    journal.leave()
    journal = opened(path, NOW_S + 2000)
    journal.write(rows(*IDS[2:1002]))
    assert IDS[1] not in journal.known(IDS[:2])
    journal.leave()


def test_at_the_limit_the_oldest_go(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal", ids_max=500)
    for at in range(0, 2500, 100):
        journal.write(rows(*IDS[at : at + 100]))
    assert journal.count() == 500
    assert set(journal.known(IDS[2000:2500])) == set(IDS[2000:2500])
    journal.leave()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal")
    with pytest.raises(JournalError, match="in use by another process"):
        opened(tmp_path / "journal")
    journal.leave()


def test_nothing_is_known_without_a_path_or_before_it_is_opened(tmp_path: Path) -> None:
    writer = StateWriter(AppState.memory(), lambda: NOW_S)
    for journal in (Journal(None, writer), Journal(tmp_path / "journal", writer)):
        assert not journal.known(IDS[:1]) and not journal.heads(PublicKey(bytes(32))) and not journal.is_open
    journal.open()
    assert journal.is_open
    journal.close()


def test_what_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"something else" * 100)
    with pytest.raises(JournalError, match=r"not a database.*move a damaged file away"):
        opened(tmp_path / "journal")
    with pytest.raises(JournalError, match="cannot be used"):
        opened(tmp_path)
    assert (tmp_path / "journal").read_bytes() == b"something else" * 100


async def test_many_tasks_share_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path / "journal")
    commits = counted(journal, monkeypatch)
    async with trio.open_nursery() as nursery:
        for id in IDS[:50]:
            nursery.start_soon(journal.remember, rows(id))
    assert sum(commits) == 50 and len(commits) < 10
    assert len(journal.known(IDS[:50])) == 50 and journal.writer.written == 50
    journal.leave()


def counted(journal: Written, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of ids that the commits from now on write."""
    commits: list[int] = []
    state = journal.writer.state
    commit = state.commit

    def count(batch: AppBatch, now_min: int = 0) -> None:
        commits.append(len(batch.handled))
        commit(batch, now_min)

    monkeypatch.setattr(state, "commit", count)
    return commits


def broken(batch: AppBatch, now_min: int = 0) -> None:
    raise StateError("the disk is full")


async def test_a_failed_commit_fails_all_who_wait_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path / "journal")
    failed: list[JournalError] = []

    async def remember(id: MessageId) -> None:
        try:
            await journal.remember(rows(id))
        except JournalError as error:
            failed.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(journal.writer.state, "commit", broken)
        async with trio.open_nursery() as nursery:
            for id in IDS[:5]:
                nursery.start_soon(remember, id)
    assert len(failed) == 5
    await journal.remember(rows(IDS[5]))
    assert len(journal.known(IDS[:6])) == 6
    journal.leave()


async def test_what_is_gathered_while_a_commit_runs_goes_into_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path / "journal")
    commits = counted(journal, monkeypatch)
    done: list[MessageId] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.writer.run)
        for id in IDS[:2000]:
            journal.gather(rows(id), partial(done.append, id))
        await journal.flush()
        nursery.cancel_scope.cancel()
    assert done == IDS[:2000] and sum(commits) == 2000 and len(commits) <= 2
    journal.leave()


async def test_what_cannot_be_gathered_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = trio.Event()
    journal = opened(tmp_path / "journal", on_failed=told.set)
    done: list[MessageId] = []
    group = PublicKey(bytes(32))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.writer.run)
        with monkeypatch.context() as patch:
            patch.setattr(journal.writer.state, "commit", broken)
            journal.keep_heads(group, lambda: [(IDS[0], 99_000_000)])
            journal.gather(rows(IDS[0]), partial(done.append, IDS[0]))
            await told.wait()
        with pytest.raises(JournalError, match="the disk is full"):
            journal.check()
        journal.check()
        assert not done, "what is not on disk is not settled"
        journal.gather(rows(IDS[1]), partial(done.append, IDS[1]))
        await journal.flush()
        nursery.cancel_scope.cancel()
    assert done == IDS[:2] and journal.heads(group) == [(IDS[0], 99_000_000)]
    journal.leave()


def test_a_killed_process_leaves_a_whole_journal(tmp_path: Path) -> None:
    script = f"""
import os
from pathlib import Path
from router.client.journal import Journal
from router.client.state_writer import StateWriter
from router.core.wire.crypto import MessageId
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState
state = AppState(Path({str(tmp_path / "state")!r}))
journal = Journal({str(tmp_path / "journal")!r}, StateWriter(state, lambda: {NOW_S}))
journal.open()
state.commit(journal.batch([(MessageId(bytes(32)), {NOW_S + 60})]))
state.change(lambda rows: os.kill(os.getpid(), 9))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    journal = opened(tmp_path / "journal")
    assert (set(journal.known([MessageId(bytes(32))])), journal.count()) == ({MessageId(bytes(32))}, 1)
    journal.leave()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["journal", "state"]
