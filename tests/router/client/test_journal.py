"""The journal: on disk when its calls return, bounded, for one process, and whole after a crash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from router.client.journal import Head, Journal, JournalError, Row
from router.core.wire.crypto import MessageId, PublicKey

NOW_S = 1_800_000_000
IDS = [MessageId(number.to_bytes(32, "big")) for number in range(3000)]


def opened(path: Path, wall_s: Callable[[], float], **more: Any) -> Journal:
    journal = Journal(path, wall_s, **more)
    journal.open()
    return journal


def rows(*ids: MessageId, until_s: int = NOW_S + 60) -> list[tuple[MessageId, int]]:
    return [(id, until_s) for id in ids]


def test_what_is_written_is_known_to_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = opened(path, lambda: NOW_S)
    journal.write(rows(*IDS[:1200]), NOW_S)
    journal.write(rows(*IDS[:3]), NOW_S)
    assert set(journal.known(IDS)) == set(IDS[:1200])
    assert path.stat().st_mode & 0o777 == 0o600
    journal.close()
    journal = opened(path, lambda: NOW_S)
    assert set(journal.known(IDS[1100:1300])) == set(IDS[1100:1200]) and journal.known([]) == set()
    journal.close()


def test_what_cannot_come_any_more_is_forgotten(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal", lambda: NOW_S)
    journal.write(rows(IDS[0], until_s=NOW_S) + rows(IDS[1], until_s=NOW_S + 1000), NOW_S)
    journal.close()
    journal = opened(tmp_path / "journal", lambda: NOW_S + 599)
    assert journal.count() == 2
    journal.close()
    journal = opened(tmp_path / "journal", lambda: NOW_S + 601)
    assert set(journal.known(IDS[:2])) == {IDS[1]}
    journal.write(rows(*IDS[2:1002]), NOW_S + 2000)
    assert IDS[1] not in journal.known(IDS[:2])
    journal.close()


def test_at_the_limit_the_oldest_go(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal", lambda: NOW_S, ids_max=500)
    for at in range(0, 2500, 100):
        journal.write(rows(*IDS[at : at + 100]), NOW_S)
    assert 500 <= journal.count() < 500 + 1000
    assert set(journal.known(IDS[2000:2500])) == set(IDS[2000:2500])
    journal.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal", lambda: NOW_S)
    with pytest.raises(JournalError, match="in use by another process"):
        opened(tmp_path / "journal", lambda: NOW_S)
    journal.close()


def test_nothing_is_known_without_a_path_or_before_it_is_opened(tmp_path: Path) -> None:
    for journal in (Journal(None, lambda: NOW_S), Journal(tmp_path / "journal", lambda: NOW_S)):
        assert not journal.known(IDS[:1]) and not journal.heads(PublicKey(bytes(32))) and not journal.is_open
    journal.open()
    assert journal.is_open
    journal.close()


def test_what_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"something else" * 100)
    with pytest.raises(JournalError, match=r"not a database.*move a damaged file away"):
        opened(tmp_path / "journal", lambda: NOW_S)
    with pytest.raises(JournalError, match="cannot be used"):
        opened(tmp_path, lambda: NOW_S)


def test_a_journal_that_breaks_says_so(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal", lambda: NOW_S)
    journal.close()
    with pytest.raises(JournalError):
        journal.write(rows(IDS[0]), NOW_S)
    with pytest.raises(JournalError):
        journal.known(IDS[:1])


async def test_many_tasks_share_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path / "journal", lambda: NOW_S)
    commits: list[int] = []
    write = journal.write

    def counted(some: list[Row], now_s: float, heads: Mapping[PublicKey, Sequence[Head]]) -> None:
        commits.append(len(some))
        write(some, now_s, heads)

    monkeypatch.setattr(journal, "write", counted)
    async with trio.open_nursery() as nursery:
        for id in IDS[:50]:
            nursery.start_soon(journal.remember, rows(id))
    assert sum(commits) == 50 and len(commits) < 10
    assert len(journal.known(IDS[:50])) == 50
    assert repr(journal) == f"<journal {tmp_path / 'journal'}: 50 messages written by this process>"
    journal.close()


async def test_a_failed_commit_fails_all_who_wait_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path / "journal", lambda: NOW_S)
    failed: list[JournalError] = []

    def broken(some: object, now_s: float, heads: object) -> None:
        raise JournalError("the disk is full")

    async def remember(id: MessageId) -> None:
        try:
            await journal.remember(rows(id))
        except JournalError as error:
            failed.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(journal, "write", broken)
        async with trio.open_nursery() as nursery:
            for id in IDS[:5]:
                nursery.start_soon(remember, id)
    assert len(failed) == 5
    await journal.remember(rows(IDS[5]))
    assert len(journal.known(IDS[:6])) == 6
    journal.close()


async def test_what_is_gathered_while_a_commit_runs_goes_into_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path / "journal", lambda: NOW_S)
    commits: list[int] = []
    done: list[MessageId] = []
    write = journal.write

    def counted(some: list[Row], now_s: float, heads: Mapping[PublicKey, Sequence[Head]]) -> None:
        commits.append(len(some))
        write(some, now_s, heads)

    monkeypatch.setattr(journal, "write", counted)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        for id in IDS[:2000]:
            journal.gather(rows(id), partial(done.append, id))
        await journal.flush()
        nursery.cancel_scope.cancel()
    assert done == IDS[:2000] and sum(commits) == 2000 and len(commits) <= 2
    journal.close()


async def test_what_cannot_be_gathered_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = trio.Event()
    journal = opened(tmp_path / "journal", lambda: NOW_S, on_failed=told.set)
    done: list[MessageId] = []

    def broken(some: object, now_s: float, heads: object) -> None:
        raise JournalError("the disk is full")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        with monkeypatch.context() as patch:
            patch.setattr(journal, "write", broken)
            journal.gather(rows(IDS[0]), partial(done.append, IDS[0]))
            await told.wait()
        with pytest.raises(JournalError, match="the disk is full"):
            journal.check()
        journal.check()
        assert not done, "what is not on disk is not settled"
        journal.gather(rows(IDS[1]), partial(done.append, IDS[1]))
        await journal.flush()
        nursery.cancel_scope.cancel()
    assert done == IDS[:2]
    journal.close()


def test_a_killed_process_leaves_a_whole_journal(tmp_path: Path) -> None:
    script = f"""
import os
from router.core.wire.crypto import MessageId
from router.client.journal import Journal
journal = Journal({str(tmp_path / "journal")!r}, lambda: {NOW_S})
journal.open()
journal.write([(MessageId(bytes(32)), {NOW_S + 60})], {NOW_S})
journal._database.execute("BEGIN IMMEDIATE")
journal._database.execute("INSERT INTO handled (id, until_s) VALUES (x'00', 1)")
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    journal = opened(tmp_path / "journal", lambda: NOW_S)
    assert (set(journal.known([MessageId(bytes(32))])), journal.count()) == ({MessageId(bytes(32))}, 1)
    journal.close()
    assert [one.name for one in tmp_path.iterdir()] == ["journal"]
