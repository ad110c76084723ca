"""Small files of logs as one: DuckDB takes a millisecond or two for each file that it opens, whatever is in it.

Each line gets a first field with the number of its file, so that what counts is decided for each line as if it were
read from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from router.disk.log.packed import is_packed, open_text

SMALL_BYTES = 1 << 20
"""Size of a file up to which it is joined with others."""
PACKED_SMALL_BYTES = 16 << 20
"""Size of a compressed file's text up to which it is joined: it has to be written anew in any case."""
JOINED_BYTES = 64 << 20
"""Bytes that are joined at a time: so many are on the disk twice, for as long as they are read."""
MARK = "@file"
"""The field with the file's number. A file that may have it already, plainly or by an escape, is read by itself: its
line would count as one of whatever file it names."""
_MARK, _ESCAPE = f'"{MARK}"'.encode(), rb"\u"

Item = TypeVar("Item")


def batches(items: Iterable[tuple[Item, int]]) -> Iterator[list[Item]]:
    """Yield lists of items whose sizes add up to at most `JOINED_BYTES`."""
    batch, size = list[Item](), 0
    for item, more in items:
        if batch and size + more > JOINED_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch


def joined_bytes(path: str) -> int:
    """Return up to how many bytes of text that file is joined with others."""
    return PACKED_SMALL_BYTES if is_packed(path) else SMALL_BYTES


def join(files: Iterable[tuple[int, str]], place: Path) -> set[int]:
    """Write the marked lines of files, given as (number, path), to one file; return the numbers of those that have to
    be read by themselves."""
    left = set()
    with place.open("xb") as out:
        for number, path in files:
            data = _marked(number, path, joined_bytes(path))
            if data is None:
                left.add(number)
            else:
                out.write(data)
    return left


def _marked(number: int, path: str, most: int) -> bytes | None:
    """Return the marked lines of a file; None if it is not what was measured, or no file of a log."""
    try:
        with open_text(path) as file:
            data = file.read(most + 1)
    except OSError:
        return None
    if len(data) > most or not data.startswith(b"{") or _MARK in data or _ESCAPE in data:
        return None
    head = b'{"%s":%d,' % (MARK.encode(), number)
    return head + data[1:].rstrip(b"\n").replace(b"\n{", b"\n" + head) + b"\n"
