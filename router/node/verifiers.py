"""Signatures off the loop: verifier processes, at most one per spare core, fed with whole reads in a fair order.

A process starts when there is more to check than those that run can take, and ends when it has had nothing to do for a
while: a quiet node does without.

Each neighbour has a lane, and all strangers share a narrow one. Jobs leave in the order of their lane, whichever
verifier checked them; lanes do not wait for each other. With one or two messages of no stranger and no other job
waiting, or where there is no spare core, the check runs in the loop.
"""

from __future__ import annotations

import logging
import socket
import subprocess
from array import array
from collections import deque
from collections.abc import Callable
from math import inf

import trio
from trio.socket import SocketType

from router.actors.process import program
from router.core.neighbours.directory import STRANGERS
from router.core.routing.job import Job
from router.core.routing.lanes import Lane, Lanes
from router.node import verifier_process
from router.transport.contract import StreamBroken
from router.transport.sockets import receive, send_whole

log = logging.getLogger(__name__)

INLINE_MESSAGES_MAX = 2
OUTSTANDING_MAX = 4  # requests written to one verifier and not yet answered
IDLE_S = 60.0  # for how long a verifier has nothing to do before it ends; a start costs some 0.1 s of CPU
AGAIN_S = 0.2  # how long after one has died another may start
SAY_AGAIN_S = 60.0  # how long after a process died, or could not start, that is said again
SIGNATURE_COST_BYTES = 16 << 10  # checking a signature takes as long as hashing this many bytes
TOGETHER = 64  # strangers' reads that are released at once, to share a commit; fewer only if they are all there is
SHARE_BYTES = 1 << 20  # a lane's share of one round, in bytes to hash, where a signature counts as above


class _Task:
    """A job, reduced to the part that a verifier needs."""

    __slots__ = ("base", "cost", "done", "frames", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.done = not job.fresh
        self.cost = 0
        if job.fresh:
            self.base = job.fresh[0].frame_at
            self.frames = memoryview(job.arrived.data)[self.base : max([row.end for row in job.fresh])]
            self.cost = len(self.frames) + len(job.fresh) * SIGNATURE_COST_BYTES

    def check_here(self) -> None:
        self.finish(verifier_process.verdicts(bytes(self.frames), self.job.positions, self.base))

    def finish(self, verdicts: bytes) -> None:
        self.job.valid = verdicts
        self.job.positions = array(verifier_process.WORD)
        self.frames = memoryview(b"")
        self.done = True


Taken = tuple[Lane[_Task], _Task]


class Verifiers:
    """Verifies jobs in up to `count` processes and calls `release(jobs)`, those of one link in order; with `count` 0 it
    checks all inline."""

    def __init__(self, count: int, release: Callable[[list[Job]], None], idle_s: float = IDLE_S) -> None:
        self.count = count
        self._release = release
        self._idle_s = idle_s
        self._unstarted = trio.lowlevel.ParkingLot()
        self._lanes: Lanes[_Task] = Lanes(SHARE_BYTES)
        self._work = trio.Event()
        self._said_s = -inf
        self.pids: list[int] = []

    def __repr__(self) -> str:
        return f"<{self.count} verifiers, {len(self._lanes)} jobs under way>"

    @property
    def backlog(self) -> int:
        """Return how many messages wait for their signatures to be checked."""
        return sum(len(task.job.fresh) for task in self._lanes.tasks() if not task.done)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self.count):
                nursery.start_soon(self._keep_one)
            task_status.started()
            await trio.sleep_forever()

    def submit(self, job: Job) -> None:
        link = job.link
        if link.lane != link.charged and not self._lanes.holds(link.lane, lambda task: task.job.link is link):
            link.lane = link.charged
        task, of_strangers = _Task(job), link.lane == STRANGERS
        alone = not self._lanes and len(job.fresh) <= INLINE_MESSAGES_MAX
        if not task.done and (self.count == 0 or (alone and not of_strangers)):
            task.check_here()
        self._lanes.add(link.lane, task, is_narrow=of_strangers)
        if task.done:
            self._let_go(link.lane)
            return
        self._work.set()
        if len(self._lanes) > OUTSTANDING_MAX * (self.count - len(self._unstarted)):
            self._unstarted.unpark()

    def _finished(self, taken: list[Taken]) -> None:
        """Finish tasks that verifiers have answered, and release the jobs that are next in these lanes."""
        for lane, _ in taken:
            if self._lanes.finish(lane):
                self._work.set()
        for bringer in dict.fromkeys(task.job.link.lane for _, task in taken):
            self._let_go(bringer)

    def _check_here(self, taken: Taken) -> None:
        taken[1].check_here()
        self._finished([taken])

    def _let_go(self, bringer: bytes) -> None:
        if done := self._lanes.release(bringer, TOGETHER if bringer == STRANGERS else 1):
            self._release([task.job for task in done])

    async def _keep_one(self) -> None:
        """Run a verifier process whenever one more is needed; if it cannot, or dies, its jobs are checked here."""
        while True:
            if len(self._lanes) <= OUTSTANDING_MAX * len(self.pids):
                await self._unstarted.park()
            outstanding: deque[Taken] = deque()
            try:
                ours, process = _started()
            except OSError as error:
                self._warn(f"no verifier process can be started: {error}")
                while not self.pids and (taken := self._lanes.take()) is not None:
                    self._check_here(taken)
            else:
                if await self._run_one(ours, process, outstanding):
                    continue
                self._warn(f"verifier process {process.pid} ended")
                for taken in outstanding:
                    self._check_here(taken)
            await trio.sleep(AGAIN_S)

    def _warn(self, text: str) -> None:
        """Say in the log, once a minute, why signatures are checked in the loop."""
        if trio.current_time() >= self._said_s + SAY_AGAIN_S:
            self._said_s = trio.current_time()
            log.warning("%s; until one runs, its work is done here", text)

    async def _run_one(self, ours: socket.socket, process: subprocess.Popen[bytes], outstanding: deque[Taken]) -> bool:
        """Let a process work until it has had nothing to do for a while; return False if it has died before."""
        self.pids.append(process.pid)
        is_idle = False
        try:
            async with trio.open_nursery() as nursery:
                sock = trio.socket.from_stdlib_socket(ours)
                room = trio.Semaphore(OUTSTANDING_MAX)
                nursery.start_soon(self._read, sock, outstanding, room, nursery.cancel_scope)
                await self._write(sock, outstanding, room)
                is_idle = True
                nursery.cancel_scope.cancel()
        except* StreamBroken:
            pass
        finally:
            self.pids.remove(process.pid)
            ours.close()
            process.kill()
            process.wait()
        return is_idle

    async def _write(self, sock: SocketType, outstanding: deque[Taken], room: trio.Semaphore) -> None:
        """Give it what is to be checked, until there has been nothing for a while."""
        while True:
            await room.acquire()
            while (taken := self._lanes.take()) is None:
                if self._work.is_set():  # all idle writers wait for the same event
                    self._work = trio.Event()
                with trio.move_on_after(self._idle_s) as waiting:
                    await self._work.wait()
                if waiting.cancelled_caught and not outstanding and not self._work.is_set():
                    return
            outstanding.append(taken)
            task = taken[1]
            await send_whole(sock, verifier_process.request(task.frames, task.job.positions, task.base))

    async def _read(
        self, sock: SocketType, outstanding: deque[Taken], room: trio.Semaphore, running: trio.CancelScope
    ) -> None:
        """Take its verdicts until it ends."""
        answer = b""
        while data := await receive(sock, 1 << 16):
            answer += data
            finished: list[Taken] = []
            while outstanding and len(answer) >= len(outstanding[0][1].job.fresh):
                finished.append(outstanding.popleft())
                task = finished[-1][1]
                count = len(task.job.fresh)
                task.finish(answer[:count])
                answer = answer[count:]
                room.release()
            self._finished(finished)
        running.cancel()


def _started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a verifier process; return our end of its socket, and the process. Raise `OSError`."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            for end in (ours, theirs):
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    end.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
            command = program("router.node.verifier_process")
            return ours, subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        except OSError:
            ours.close()
            raise
