"""Where the store's transactions begin and end: LMDB's lock of writers belongs to the thread that took it, which has to
be the one that releases it. What a transaction writes may be put into it by any thread between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import trio

T = TypeVar("T")


class Commits(Protocol):
    """Runs what begins and what ends a transaction. `begins_ahead`: the end of one transaction begins the next one, so
    that its writer need not wait for another thread."""

    begins_ahead: bool

    def call(self, job: Callable[[], T]) -> T: ...
    async def run(self, job: Callable[[], T]) -> T: ...
    def close(self) -> None: ...


class CallersThread:
    """Runs jobs in the thread of their caller, which is always the same one: for tools, and tests."""

    begins_ahead = False

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

    begins_ahead = True

    def __init__(self) -> None:
        self._thread = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commits", initializer=self._begun)

    def __repr__(self) -> str:
        return "<the thread of the commits>"

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
    """The transactions that write to an environment, one after the other; each begins and ends where `commits` runs."""

    def __init__(self, environment: Any, commits: Commits) -> None:
        self._env, self._commits = environment, commits
        self._now: Any = None
        self._next: Any = None  # begun ahead

    def __repr__(self) -> str:
        return f"<write turns, {'in' if self._now is not None else 'between'} transactions>"

    def begin(self) -> Any:
        """Return the next transaction, into which any thread may put; one that was begun before is aborted."""
        if self._now is not None:
            self._commits.call(self._now.abort)
        self._now, self._next = self._next or self._commits.call(self._begin), None
        return self._now

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
        if self._commits.begins_ahead:
            self._next = self._begin()

    def abort(self) -> None:
        """Abort what was begun; may be called again."""
        begun, self._now, self._next = (self._now, self._next), None, None
        for txn in begun:
            if txn is not None:
                self._commits.call(txn.abort)

    def _begin(self) -> Any:
        return self._env.begin(write=True)
