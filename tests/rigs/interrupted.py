"""Run a module as a program, and send it Ctrl-C at one place: `python -m rigs.interrupted PLACE MODULE [ARGUMENT …]`.

A place is an instruction at which Python handles signals: the start of a function, the end of a turn of a loop, and
what follows a call of a built-in function. PLACE is `FILE` to write all places that the program passes to that file,
one a line with the number of times, or such a line, with the number of the time at which Ctrl-C comes.
"""

from __future__ import annotations

import atexit
import dis
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import trio

from rigs.warm_start import run

BUILT_IN = "built-in"
"""Of a place that follows a call: Python handles signals there if no Python function was called."""


class Place(NamedTuple):
    """An instruction. `is_protected`: trio keeps Ctrl-C there until its main task waits."""

    file: str
    function: str
    line: int
    offset: int
    is_protected: bool
    times: int = 1

    def __str__(self) -> str:
        return "\t".join(map(str, self))

    @classmethod
    def read(cls, text: str) -> Place:
        file, function, line, offset, protected, times = text.split("\t")
        return cls(file, function, int(line), int(offset), protected == "True", int(times))


@cache
def looks(code: CodeType) -> dict[int, str]:
    """Return the offsets at which Python handles signals, and after which kind of instruction."""
    found, before = dict[int, str](), ""
    for one in dis.get_instructions(code):
        if before.startswith("CALL") and one.opname != "GET_AWAITABLE":
            found[one.offset] = BUILT_IN
        if (one.opname == "RESUME" and (one.arg or 0) < 2) or one.opname == "JUMP_BACKWARD":
            found[one.offset] = one.opname
        before = one.opname
    return found


def is_protected() -> bool:
    """Whether trio keeps Ctrl-C here until its main task waits."""
    by_trio = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    return by_trio and trio.lowlevel.currently_ki_protected()


class Tracer:
    """Calls `passed` with each place that the program passes while Ctrl-C has something to interrupt: from the first
    `connect_blocking` on, and while trio runs."""

    def __init__(self, passed: Callable[[FrameType, int], None], file: str = "") -> None:
        self._passed = passed
        self._file = file
        self._called = 0
        self._is_begun = False

    @property
    def is_begun(self) -> bool:
        return self._is_begun or signal.getsignal(signal.SIGINT) is not signal.default_int_handler

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._called += 1
        code = frame.f_code
        if code.co_name in ("connect_blocking", "_shutdown"):
            self._is_begun = code.co_name == "connect_blocking"
        file = code.co_filename
        if file != self._file if self._file else file == __file__ or file.startswith("<"):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        at, called = looks(code), self._called
        if at.get(frame.f_lasti) == "RESUME" and self.is_begun:
            self._passed(frame, frame.f_lasti)

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal called
            kind = at.get(frame.f_lasti) if event == "opcode" and self.is_begun else None
            if kind is not None and (kind is not BUILT_IN or called == self._called):
                self._passed(frame, frame.f_lasti)
            called = self._called
            return step

        return step


def listing(file: Path) -> Tracer:
    """Return what writes all places to a file at the end of the program."""
    found = Counter[Place]()

    def passed(frame: FrameType, offset: int) -> None:
        code, protected = frame.f_code, is_protected()
        found[Place(code.co_filename, code.co_qualname, frame.f_lineno or 0, offset, protected)] += 1

    def write() -> None:
        sys.settrace(None)
        file.write_text("".join(f"{one._replace(times=times)}\n" for one, times in found.items()))

    atexit.register(write)
    return Tracer(passed)


def interrupting(place: Place) -> Tracer:
    """Return what sends Ctrl-C at one place."""
    left = place.times

    def passed(frame: FrameType, offset: int) -> None:
        nonlocal left
        if offset != place.offset or frame.f_code.co_qualname != place.function:
            return
        if is_protected() is place.is_protected:
            left -= 1
            if not left:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)

    return Tracer(passed, place.file)


if __name__ == "__main__":
    _, told, module, *sys.argv[1:] = sys.argv
    sys.settrace(interrupting(Place.read(told)) if "\t" in told else listing(Path(told)))
    run(module)
