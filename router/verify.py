"""Signatures off the loop: verifier processes, one per spare core, fed with whole reads; order is kept.

Jobs leave in the order in which they came, whatever verifier had them. With one or two messages and nobody waiting, or
without verifiers, the check runs right here.
"""

from __future__ import annotations

import logging
import socket
import subprocess
from array import array
from collections import deque
from collections.abc import Callable

import trio

from router import verifier
from router.core.job import Job
from router.program import program

log = logging.getLogger(__name__)

INLINE_MESSAGES_MAX = 2
OUTSTANDING_MAX = 4  # requests written to one verifier and not answered


class _Task:
    """A job, cut to what a verifier needs."""

    __slots__ = ("base", "done", "frames", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.done = not job.fresh
        if job.fresh:
            self.base = job.fresh[0].frame_at
            self.frames = job.arrived.data[self.base : max(row.end for row in job.fresh[-2:])]

    def check_here(self) -> None:
        self.finish(verifier.verdicts(self.frames, self.job.positions, self.base))

    def finish(self, verdicts: bytes) -> None:
        self.job.valid = verdicts
        self.job.positions = array(verifier.WORD)
        self.frames = b""
        self.done = True


class Verifiers:
    """`release(jobs)` is called with verified jobs, in order. `count` 0 checks everything inline."""

    def __init__(self, count: int, release: Callable[[list[Job]], None]) -> None:
        self.count = count
        self._release = release
        self._order: deque[_Task] = deque()
        self._waiting: deque[_Task] = deque()
        self._work = trio.Event()
        self.pids: list[int] = []

    def __repr__(self) -> str:
        return f"<{self.count} verifiers, {len(self._order)} jobs under way>"

    @property
    def is_busy(self) -> bool:
        """Whether messages will be released before long."""
        return bool(self._order)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self.count):
                nursery.start_soon(self._keep_one)
            task_status.started()
            await trio.sleep_forever()

    def submit(self, job: Job) -> None:
        task = _Task(job)
        self._order.append(task)
        if not task.done:
            alone = len(self._order) == 1 and len(job.fresh) <= INLINE_MESSAGES_MAX
            if self.count == 0 or not self.pids or alone:
                task.check_here()
            else:
                self._waiting.append(task)
                self._work.set()
        self._let_go()

    def _let_go(self) -> None:
        done = []
        while self._order and self._order[0].done:
            done.append(self._order.popleft().job)
        if done:
            self._release(done)

    async def _keep_one(self) -> None:
        """One verifier process; should it die, what it had is checked here and another takes its place."""
        while True:
            ours, theirs = socket.socketpair()
            for sock in (ours, theirs):
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
            with theirs:
                process = subprocess.Popen(program("router.verifier"), stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
            self.pids.append(process.pid)
            outstanding: deque[_Task] = deque()
            try:
                async with trio.open_nursery() as nursery:
                    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
                    room = trio.Semaphore(OUTSTANDING_MAX)
                    nursery.start_soon(self._write, stream, outstanding, room)
                    await self._read(stream, outstanding, room)
                    nursery.cancel_scope.cancel()
            except* trio.BrokenResourceError:
                pass
            finally:
                self.pids.remove(process.pid)
                ours.close()
                process.kill()
                process.wait()
            log.warning("verifier process %d ended; its work is done here and another one starts", process.pid)
            for task in outstanding:
                task.check_here()
            self._let_go()
            await trio.sleep(0.2)

    async def _write(self, stream: trio.SocketStream, outstanding: deque[_Task], room: trio.Semaphore) -> None:
        while True:
            await room.acquire()
            while not self._waiting:
                if self._work.is_set():  # all idle writers wait for the same event
                    self._work = trio.Event()
                await self._work.wait()
            task = self._waiting.popleft()
            outstanding.append(task)
            await stream.send_all(b"".join(verifier.request(task.frames, task.job.positions, task.base)))

    async def _read(self, stream: trio.SocketStream, outstanding: deque[_Task], room: trio.Semaphore) -> None:
        answer = b""
        while data := await stream.receive_some(1 << 16):
            answer += data
            while outstanding and len(answer) >= len(outstanding[0].job.fresh):
                task = outstanding.popleft()
                count = len(task.job.fresh)
                task.finish(answer[:count])
                answer = answer[count:]
                room.release()
            self._let_go()
