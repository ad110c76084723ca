"""Do the work of a message in a process of its own: `Compute("services.capd.solve_job:solve", …)` in the rules."""

from __future__ import annotations

import time

import msgspec
from msgspec import Struct

from .core.solving import PART, tried


class Work(Struct, frozen=True):
    """What is to be solved: stage 1 of the message, its bits, and the most attempts."""

    stage1: bytes
    bits: int
    attempts_max: int


class Worked(Struct, frozen=True):
    """The nonce, None if none of those tried was one, and the CPU time that it took."""

    nonce: bytes | None
    spent_ms: int


def solve(argument: bytes) -> bytes:
    """Return what became of this work."""
    work = msgspec.msgpack.decode(argument, type=Work)
    began_s, first, nonce = time.process_time(), 0, None
    while nonce is None and first < work.attempts_max:
        nonce = tried(work.stage1, work.bits, first)
        first += PART
    return msgspec.msgpack.encode(Worked(nonce, int(1000 * (time.process_time() - began_s))))
