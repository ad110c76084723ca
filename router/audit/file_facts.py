"""The facts of a log's files, before their lines are read: size, first and last line, digest of the rest.

Of a compressed file they are those of its text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import BinaryIO

from router.audit.spelling import Care, Spelling
from router.disk.log.packed import is_packed, open_text
from spark_analytics.judgement.log_files import DEAD_LINK, NOT_A_FILE, FileFacts

LINE_BYTES_MAX = 64 * 1024
"""Number of bytes kept of the first and of the last line; header and footer are shorter."""
READ_BYTES = 1 << 20
THREADS = 8
"""Number of reading threads: more than cores, because files on a slow disk wait for the disk."""


def read_facts(
    paths: Iterable[str], done: Callable[[int], None] = lambda size: None, care: Care | None = None
) -> list[FileFacts]:
    """Return the facts of all files, in the order of the paths, read by several threads; `done` gets each file's size.

    `care`: how their lines are checked; None: not at all. A file that cannot be read has an `error` in its facts.
    """
    pool = ThreadPoolExecutor(THREADS)  # hashing and reading release the interpreter lock
    try:
        found = []
        for facts in pool.map(partial(file_facts, care=care), paths):
            found.append(facts)
            done(facts.size)
        return found
    finally:
        pool.shutdown(cancel_futures=True)


def file_facts(path: str, care: Care | None = None) -> FileFacts:
    """Return the facts of one file, in one pass with little memory."""
    try:
        if not is_regular(path):  # opening a pipe would wait for ever
            return FileFacts(path, 0, b"", b"", "", NOT_A_FILE)
        spelling = Spelling(care) if care else None
        if is_packed(path):
            with open_text(path) as file:
                return _facts_of_text(path, file, spelling)
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - names need not be UTF-8
            return _facts(path, file, spelling)
    except OSError as error:
        return FileFacts(path, 0, b"", b"", "", why_unreadable(path, error))


def is_regular(path: str) -> bool:
    return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - names need not be UTF-8


def why_unreadable(path: str, error: OSError) -> str:
    return DEAD_LINK if os.path.islink(path) else error.strerror or str(error)  # noqa: PTH114


def _facts(path: str, file: BinaryIO, spelling: Spelling | None) -> FileFacts:
    size = file.seek(0, os.SEEK_END)
    last = _last_line(file, size)
    file.seek(0)
    digest, head, left = sha256(), b"", size - len(last)
    buffer = bytearray(min(size, READ_BYTES))
    while left > 0:
        count = file.readinto(memoryview(buffer)[: min(left, READ_BYTES)])  # type: ignore[attr-defined]
        if not count:
            return FileFacts(path, size, head, last, "", "it became shorter while it was read")
        if not head:
            head = _first_line(bytes(buffer[: min(count, LINE_BYTES_MAX)]))
        digest.update(memoryview(buffer)[:count])
        if spelling:
            spelling.take(memoryview(buffer)[:count])
        left -= count
    is_odd = spelling is not None and spelling.is_odd
    return FileFacts(path, size, head or last, last, digest.hexdigest(), is_odd=is_odd)


def _facts_of_text(path: str, file: BinaryIO, spelling: Spelling | None) -> FileFacts:
    """Return the facts of a text whose size is known only at its end."""
    digest, head, held, size = sha256(), b"", b"", 0

    def take(data: bytes) -> None:
        digest.update(data)
        if spelling and data:
            spelling.take(memoryview(data))

    while data := file.read(READ_BYTES):
        head = head or _first_line(data[:LINE_BYTES_MAX])
        size += len(data)
        held += data
        take(held[:-LINE_BYTES_MAX])
        held = held[-LINE_BYTES_MAX:]
    last = _line_at_end(held)
    take(held[: len(held) - len(last)])
    is_odd = spelling is not None and spelling.is_odd
    return FileFacts(path, size, head or last, last, digest.hexdigest(), is_odd=is_odd)


def _first_line(data: bytes) -> bytes:
    return data[: data.find(b"\n") + 1 or len(data)]


def _last_line(file: BinaryIO, size: int) -> bytes:
    """Return the last line, with its newline if it has one; of a longer line the last 64 KiB."""
    file.seek(max(0, size - LINE_BYTES_MAX))
    return _line_at_end(file.read(LINE_BYTES_MAX))


def _line_at_end(data: bytes) -> bytes:
    return data[data.rfind(b"\n", 0, len(data) - 1) + 1 :]


def content(path: str) -> Iterator[bytes]:
    """Return the text of a file, part by part."""
    with open_text(path) as file:
        while data := file.read(READ_BYTES):
            yield data
