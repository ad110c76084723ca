"""Where the store's transactions begin and end: LMDB's lock of writers belongs to the thread that took it, which has to
be the one that releases it. What a transaction writes may be put into it by any thread between.

A small transaction begins and ends in the loop itself where commits are quick (`CommitSpeed`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import trio

from router.disk.commit_speed import CommitSpeed

T = TypeVar("T")


class Commits(Protocol):
    """Runs what begins and what ends a transaction. `begins_ahead`: the end of one transaction begins the next one, so
    that its writer need not wait for another thread. `speed`: that of the commits; None: all run in one thread."""

    @property
    def begins_ahead(self) -> bool: ...
    @property
    def speed(self) -> CommitSpeed | None: ...
    def call(self, job: Callable[[], T]) -> T: ...
    async def run(self, job: Callable[[], T]) -> T: ...
    def close(self) -> None: ...


class CallersThread:
    """Runs jobs in the thread of their caller, which is always the same one: for tools, and tests."""

    begins_ahead = False
    speed = None

    def __repr__(self) -> str:
        return "<the thread of the caller>"

    def call(self, job: Callable[[], T]) -> T:
        """Run the job."""
        return job()

    async def run(self, job: Callable[[], T]) -> T:
        """Run the job, which holds up the loop."""
        return job()

    def close(self) -> None:
        """Release nothing."""


class CommitThread:
    """Runs jobs in one thread, so that the loop goes on while the disk syncs."""

    def __init__(self) -> None:
        self.speed = CommitSpeed()
        self._thread = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commits", initializer=self._begun)

    def __repr__(self) -> str:
        return f"<the thread of the commits, {self.speed!r}>"

    @property
    def begins_ahead(self) -> bool:
        """Whether the next transaction will most likely end in the thread, too."""
        return not self.speed.is_quick

    def call(self, job: Callable[[], T]) -> T:
        """Run the job, and wait for it; in the thread itself, run it at once."""
        return job() if threading.get_ident() == self._thread else self._pool.submit(job).result()

    async def run(self, job: Callable[[], T]) -> T:
        """Run the job while the loop goes on. Once begun it is not cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        token, done = trio.lowlevel.current_trio_token(), trio.Event()
        running = self._pool.submit(job)
        running.add_done_callback(lambda _: token.run_sync_soon(done.set))
        with trio.CancelScope(shield=True):
            await done.wait()
        return running.result()

    def _begun(self) -> None:
        self._thread = threading.get_ident()

    def close(self) -> None:
        """End the thread; may be called again."""
        self._pool.shutdown()


class WriteTurns:
    """The transactions that write to an environment, one after the other; each begins and ends where `commits` runs, or
    with its writer (`is_here`)."""

    def __init__(self, environment: Any, commits: Commits) -> None:
        self._env, self._commits = environment, commits
        self._now: Any = None
        self._next: Any = None  # begun ahead
        self.is_here = False

    def __repr__(self) -> str:
        return f"<write turns, {'in' if self._now is not None else 'between'} transactions>"

    def begin(self, *, may_be_here: bool = False) -> Any:
        """Return the next transaction, into which any thread may put; one that was begun before is aborted. It is
        begun, and to be committed, in this thread if it may be and commits are quick."""
        if self._now is not None:
            self.run(self._now.abort)
        speed, begun, self._next = self._commits.speed, self._next, None
        self.is_here = begun is None and may_be_here and speed is not None and speed.is_quick
        self._now = begun or self.run(self._begin)
        return self._now

    def run(self, job: Callable[[], T]) -> T:
        """Run what begins or ends the present transaction in its thread, and wait for it."""
        return job() if self.is_here else self._commits.call(job)

    def begin_here(self) -> Any:
        """Return a transaction that ends in the same thread; one that was begun is aborted."""
        self.abort()
        return self._begin()

    def commit(self) -> None:
        """Commit; to be run by `commits`. Errors of LMDB pass, and end the transaction."""
        txn, self._now = self._now, None
        txn.commit()

    def begin_ahead(self) -> None:
        """Begin the next one, if `commits` does so; to be run by it."""
        self._env.reader_check()  # a snapshot that was killed would keep pages from being used again
        if self._commits.begins_ahead and not self.is_here:
            self._next = self._begin()

    def abort(self) -> None:
        """Abort what was begun; may be called again."""
        now, ahead, self._now, self._next = self._now, self._next, None, None
        if now is not None:
            self.run(now.abort)
        if ahead is not None:
            self._commits.call(ahead.abort)

    def _begin(self) -> Any:
        return self._env.begin(write=True)
