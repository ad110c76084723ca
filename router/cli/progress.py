"""How far a command has come, on one line of a terminal; nothing where standard error is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import BinaryIO

from router.cli.output import at_terminal, size_text
from router.core.wire.text import span_text

REDRAW_S = 0.2
_CLEAR = "\r\x1b[K"


def progress_line(done: int, total: int, elapsed_s: float) -> str:
    """Return the bytes that are done, their rate, and the time that is left; `total`: 0 if it is not known."""
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    said = f"{size_text(done)} of {size_text(total)}" if total else size_text(done)
    if not rate:
        return said
    said += f", {size_text(round(rate))}/s"
    return f"{said}, {span_text((total - done) / rate)} left" if done < total else said


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], object]]:
    """Give what is to be called with each further number of bytes; the line goes after the block."""
    if not at_terminal():
        yield int
        return
    began_s, drawn_s, done = monotonic(), 0.0, 0

    def add(count: int) -> None:
        nonlocal drawn_s, done
        done += count
        if (now_s := monotonic()) - drawn_s >= REDRAW_S:
            drawn_s = now_s
            sys.stderr.write(_CLEAR + progress_line(done, total, now_s - began_s))
            sys.stderr.flush()

    try:
        yield add
    finally:
        if drawn_s:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


class CountedFile:
    """A file of which each read is told to `on_bytes`. A read may return less than was asked for: one that waited for
    all of it, on a pipe, would not see a signal that arrives between two of its parts."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], object]) -> None:
        self._file, self._on_bytes = file, on_bytes
        self._read_once: Callable[[int], bytes] = getattr(file, "read1", file.read)

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._file.fileno()

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, none at the end."""
        return self._told(self._read_once(size))

    def readline(self, size: int = -1) -> bytes:
        """Read as the file does."""
        return self._told(self._file.readline(size))

    def _told(self, data: bytes) -> bytes:
        self._on_bytes(len(data))
        return data
