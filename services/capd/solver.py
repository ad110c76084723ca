"""Solve messages: in this process if that is quick, else with a process on each core, with progress, until it is
cancelled.

The nonce is the first in the reference's order, however many processes look for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import trio

from services.capd.core.message import CapdMessage
from services.capd.core.solving import PART, Draft, attempts_for, tried
from services.capd.solver_process import ANSWER_BYTES, ORDER

AT_ONCE = 4 * PART
"""Nonces that are tried in this process before others are started."""
SAMPLE = 1 << 13
PROCESSES_MAX = 64

Progress = Callable[[int], None]


class SolverFailed(Exception):
    """Raised if a solver process ended before it had answered."""


def cores() -> int:
    """Return the number of cores on which this process may run."""
    return min(PROCESSES_MAX, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def expected_s(bits: int, processes: int) -> float:
    """Return the average time of the work on this machine, by a sample of some milliseconds."""
    began = time.perf_counter()
    tried(bytes(32), 0x01000001, 0, SAMPLE)
    each_s = (time.perf_counter() - began) / SAMPLE
    attempts = attempts_for(bits)
    return each_s * (attempts if attempts < AT_ONCE else attempts / processes)


async def solve(draft: Draft, processes: int, on_progress: Progress = lambda tried: None) -> CapdMessage:
    """Return the message with its nonce. `on_progress` is called with the number of nonces tried so far."""
    attempts_for(draft.difficulty_bits)
    stage1 = draft.solved(b"").stage1()
    for first in range(0, AT_ONCE, PART):
        if (nonce := tried(stage1, draft.difficulty_bits, first)) is not None:
            return draft.solved(nonce)
        await trio.lowlevel.checkpoint()
    return draft.solved(await _Search(stage1, draft.difficulty_bits, on_progress).run(processes))


class _Search:
    """A search for a nonce by several processes, each of which gets one part after the other."""

    def __init__(self, stage1: bytes, bits: int, on_progress: Progress) -> None:
        self._stage1 = stage1
        self._bits = bits
        self._on_progress = on_progress
        self._next = AT_ONCE
        self._done = 0
        self._found: tuple[int, bytes] | None = None

    async def run(self, processes: int) -> bytes:
        async with trio.open_nursery() as nursery:
            for _ in range(processes):
                nursery.start_soon(self._work)
        assert self._found is not None
        return self._found[1]

    async def _work(self) -> None:
        """Let one process try parts until no part that is left can hold an earlier nonce than the one found."""
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", "-m", "services.capd.solver_process"]
        process = await trio.lowlevel.open_process(command, stdin=pipe, stdout=pipe)
        assert process.stdin is not None and process.stdout is not None
        try:
            while self._found is None or self._next < self._found[0]:
                first, self._next = self._next, self._next + PART
                await process.stdin.send_all(ORDER.pack(self._stage1, self._bits, first, PART))
                answer = await _exactly(process.stdout, ANSWER_BYTES)
                self._done += PART
                self._on_progress(AT_ONCE + self._done)
                if answer[0] and (self._found is None or first < self._found[0]):
                    self._found = first, answer[1 : 1 + answer[0]]
        except trio.BrokenResourceError:
            raise SolverFailed("a process that solves has ended; start the command again") from None
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                await process.stdin.aclose()
                await process.stdout.aclose()


async def _exactly(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise trio.BrokenResourceError
        data += more
    return data
