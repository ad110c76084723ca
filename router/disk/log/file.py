"""Files of the event log: private, and synced before they get their names; and the error when the disk fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from errno import EMFILE, ENFILE
from pathlib import Path
from typing import BinaryIO

from router.disk import private_file
from router.disk.log.packed import open_text
from spark_analytics.judgement.line_grammar import LINE_BYTES_MAX

FOOTER_BYTES_MAX = 64 * 1024
WRITE_BYTES = 256 * 1024


class LogNotWritten(Exception):
    """The log could not be written. Nothing is lost: the events are still in the store."""


class EndlessLine(ValueError):
    """A line exceeds `LINE_BYTES_MAX`; no more of its file is read."""


def open_private(path: Path, flags: int) -> BinaryIO:
    return os.fdopen(os.open(path, flags | os.O_CLOEXEC, private_file.FILE_MODE), "r+b", WRITE_BYTES)


def throw_away(file: BinaryIO, draft: Path) -> None:
    """Close and delete the draft, if it was not renamed yet."""
    with suppress(OSError):
        file.close()
    with suppress(OSError):
        draft.unlink()


def finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def last_line(path: Path) -> bytes:
    """Return the last line, of at most `FOOTER_BYTES_MAX` bytes; empty if the file cannot be read."""
    try:
        with open_text(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - FOOTER_BYTES_MAX))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return b""
    return lines[-1] if lines else b""


def lines_of(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes line by line, with the newline, the only line end. Raise `EndlessLine` at a line that
    is too long."""
    while size and (data := file.readline(min(size, LINE_BYTES_MAX))):
        if len(data) == LINE_BYTES_MAX and not data.endswith(b"\n"):
            raise EndlessLine(f"a line is longer than {LINE_BYTES_MAX} bytes")
        size -= len(data)
        yield data


def not_written(directory: Path, error: OSError) -> LogNotWritten:
    remedy = "mend the disk, or free it"
    if error.errno in (EMFILE, ENFILE):
        remedy = "raise the limit of open file descriptors (LimitNOFILE), or lower limits.connections_max"
    elif isinstance(error, PermissionError):
        remedy = "start as the user it belongs to, or give it to this one by chown"
    text = f"The event log in {directory} failed: {error.strerror or error}."
    return LogNotWritten(f"{text} The events stay in the store; {remedy}, and they are written then.")
