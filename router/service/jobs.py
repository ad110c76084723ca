"""Run functions in another process, one after the other, so that a service does not hold up the router's."""

from __future__ import annotations

import logging
import os
import subprocess
from collections import deque
from collections.abc import Callable
from struct import Struct

import cbor2
import trio

from router.actors.process import program
from router.transport.sockets import words

LENGTH = Struct(">I")
JOB_S = 600.0
"""Seconds that a job may take; then its process is ended, so that it holds up the next ones no longer."""
READ_BYTES = 1 << 16
"""Most bytes of an answer that are read at once: as many as a pipe holds."""

log = logging.getLogger(__name__)


class Jobs:
    """The jobs of a service. `done(tag, result, error)` gets the result of each. The process is started with the first
    one, and again after it died; it ends with ours, however that ends."""

    def __init__(self, done: Callable[[str, bytes, str], None]) -> None:
        self._done = done
        self._waiting: deque[tuple[str, bytes, str]] = deque()
        self._work = trio.Event()
        self._process: trio.Process | None = None

    def __repr__(self) -> str:
        return f"<jobs: {len(self._waiting)} wait>"

    def put(self, function: str, argument: bytes, tag: str) -> None:
        """Run `module:function` with these bytes."""
        self._waiting.append((function, argument, tag))
        self._work.set()

    async def run(self) -> None:
        """Run the jobs in their order, until cancelled."""
        try:
            while True:
                await self._work.wait()
                self._work = trio.Event()
                while self._waiting:
                    function, argument, tag = self._waiting.popleft()
                    self._done(tag, *await self._compute(function, argument))
        finally:
            if self._process is not None:
                with trio.CancelScope(shield=True):
                    await _end(self._process)

    async def _compute(self, function: str, argument: bytes) -> tuple[bytes, str]:
        if self._process is None:
            pipe, command = subprocess.PIPE, program("router.service.worker")
            try:
                self._process = await trio.lowlevel.open_process(command, stdin=pipe, stdout=pipe)
            except OSError as lack:
                return b"", f"no process can be started for it: {words(lack)}"
        process = self._process
        requests, answers = process.stdin, process.stdout
        assert isinstance(requests, trio.lowlevel.FdStream) and isinstance(answers, trio.lowlevel.FdStream)
        request = cbor2.dumps([function, argument])
        try:
            with trio.fail_after(JOB_S):
                await _write(requests.fileno(), LENGTH.pack(len(request)) + request)
                result, error = cbor2.loads(await _answer(answers.fileno()))
        except (BrokenPipeError, trio.TooSlowError, EOFError) as lack:
            self._process = None
            await _end(process)
            if isinstance(lack, trio.TooSlowError):
                return b"", f"it took longer than {JOB_S:g} s, and its process was ended; let it do less at once"
            return b"", f"its process died with {process.returncode}; it is started again for the next job"
        return result, error


async def _end(process: trio.Process) -> None:
    """Kill the process if it still runs, and close its pipes."""
    process.kill()
    await process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            await pipe.aclose()


async def _write(pipe: int, data: bytes) -> None:
    """Write to a pipe that does not block; only while it is full this task waits, since each time that it wakes costs
    as much as some of the messages of a batch."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(pipe, rest) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(pipe)


async def _answer(pipe: int) -> bytes:
    """Return the answer to the only request that is under way; raise `EOFError` if the process ends before."""
    data = bytearray()
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        await trio.lowlevel.wait_readable(pipe)
        try:
            more = os.read(pipe, READ_BYTES)
        except BlockingIOError:  # it was woken for nothing, which may happen
            continue
        if not more:
            raise EOFError
        data += more
    return bytes(data[LENGTH.size :])
