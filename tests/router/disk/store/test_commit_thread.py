"""What begins and ends transactions runs in one thread, and is not given up half-way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import lmdb
import pytest
import trio
import trio.testing

from router.disk.store.commit_thread import CommitThread, WriteTurns


@pytest.fixture
def commits() -> Iterator[CommitThread]:
    with closing(CommitThread()) as found:
        yield found


async def test_all_jobs_run_in_one_thread_which_is_not_the_callers(commits: CommitThread) -> None:
    threads = {await commits.run(threading.get_ident), commits.call(threading.get_ident)}
    threads |= {await commits.run(threading.get_ident)}
    assert len(threads) == 1 and threading.get_ident() not in threads


async def test_an_error_of_a_job_is_its_callers(commits: CommitThread) -> None:
    with pytest.raises(ZeroDivisionError):
        await commits.run(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        commits.call(lambda: 1 // 0)


async def test_a_job_that_has_begun_is_not_cancelled(commits: CommitThread) -> None:
    begun, may_end, ended, waited = threading.Event(), threading.Event(), list[bool](), list[bool]()

    def job() -> None:
        begun.set()
        may_end.wait()
        ended.append(True)

    async def wait_for_it() -> None:
        try:
            await commits.run(job)
        finally:
            waited.extend(ended)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_it)
            await trio.to_thread.run_sync(begun.wait)
            scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            may_end.set()
    assert ended == waited == [True]
    with trio.CancelScope() as scope:
        scope.cancel()
        await commits.run(job)
    assert scope.cancelled_caught and ended == [True], "one that has not begun is not run"


def test_a_transaction_that_was_not_committed_is_aborted_by_the_next(commits: CommitThread, tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as environment:
        turns = WriteTurns(environment, commits)
        turns.begin().put(b"first", b"")
        turns.begin().put(b"second", b"")
        commits.call(turns.commit)
        with environment.begin() as txn:
            assert [*txn.cursor().iternext(values=False)] == [b"second"]
        turns.abort()


async def test_transactions_begin_and_end_here_while_commits_are_quick(commits: CommitThread, tmp_path: Path) -> None:
    """A transaction is ended by the thread that began it, whatever the speed is judged meanwhile: LMDB's lock of
    writers could not be released otherwise."""
    with lmdb.open(str(tmp_path)) as environment:
        turns, where = WriteTurns(environment, commits), list[bool]()
        quick, slow = [0] * 200, [100]
        plan = [(slow, True), (quick, True), (quick, True), (quick, False), (slow, True), (quick, True), (quick, True)]
        for number, (took_s, may_be_here) in enumerate(plan):
            turns.begin(may_be_here=may_be_here).put(b"row %d" % number, b"")
            where.append(turns.is_here)
            for began_s, one in enumerate(took_s):
                commits.speed.observe(began_s, began_s + one)
            if number == 5:
                turns.begin(may_be_here=True).put(b"row %d" % number, b"")  # the one begun before is aborted
            if turns.is_here:
                turns.commit()
                turns.begin_ahead()
            else:
                await commits.run(turns.commit)
                await commits.run(turns.begin_ahead)
        assert where == [False, False, True, False, True, False, True]
        with environment.begin() as txn:
            assert [*txn.cursor().iternext(values=False)] == [b"row %d" % number for number in range(len(plan))]
        turns.begin(may_be_here=True)
        turns.abort()
        turns.begin(may_be_here=False)
        turns.abort()
