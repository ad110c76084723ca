"""Work of threads on large blocks, whose results are taken in the order in which it was given."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
T = TypeVar("T")

THREADS_MAX = 4
CALM = 5
"""The niceness of threads and processes that work beside a node."""
BLOCK_BYTES, FREE_BYTES = 8 << 20, 256 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)


def keep_large_blocks() -> None:
    """Let this process use blocks of up to `BLOCK_BYTES` again, of up to `FREE_BYTES` in all. By default the allocator
    gives them back at once, and the system clears each page when it is taken anew: a third of the time of a snapshot.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # another C library than glibc may have none
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, BLOCK_BYTES)
            mallopt(_M_TRIM_THRESHOLD, FREE_BYTES)


def calm() -> None:
    """Let others come before this thread: the node that goes on, whose snapshot is taken."""
    me = threading.get_native_id()
    if sys.platform == "linux" and os.getpriority(os.PRIO_PROCESS, me) < CALM:
        os.setpriority(os.PRIO_PROCESS, me, CALM)


def thread_count() -> int:
    """Return how many threads are worth starting: one for each core that this process may use, up to `THREADS_MAX`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(THREADS_MAX, cores)


class InOrder(Generic[T]):
    """Runs jobs in threads; at most `ahead` of them are begun and not yet taken. The first one runs in the caller's
    thread, so that little work starts no thread. `begin`: what each thread does first."""

    def __init__(self, threads: int, ahead: int, begin: Callable[[], object] = int) -> None:
        self._threads, self._ahead, self._begin = threads, ahead, begin
        self._pool: ThreadPoolExecutor | None = None
        self._begun = deque[Future[T]]()

    def __repr__(self) -> str:
        return f"<{len(self._begun)} jobs in order>"

    def __enter__(self) -> InOrder[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, job: Callable[Given, T], *args: Given.args, **more: Given.kwargs) -> Iterator[T]:
        """Begin a job; yield the results that have to be taken before the next one. The error of a job is raised where
        its result would be yielded."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "snapshot", self._begin)
            yield job(*args, **more)
            return
        self._begun.append(self._pool.submit(job, *args, **more))
        while len(self._begun) > self._ahead:
            yield self._begun.popleft().result()

    def rest(self) -> Iterator[T]:
        """Yield all other results, as they come."""
        while self._begun:
            yield self._begun.popleft().result()

    def close(self) -> None:
        """Wait for the jobs that run; those that have not begun are dropped."""
        self._begun.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
