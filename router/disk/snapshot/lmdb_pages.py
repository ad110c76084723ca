"""The pages of an LMDB file (format 1, of LMDB 0.9): which of them a transaction uses, and whether they are in order.

Pure: what is read of the file comes through a function. Integers are little endian. A page begins with its number (8
bytes), two bytes of padding, its flags (2), and either the bounds of its free space (2, 2) or, of the first page of a
large value, how many pages that has (4). Each of the first two pages ends in a head (`FileHead`), written in turn. The
list of free pages is a tree of its own; a row of it is the count of its page numbers and these, 8 bytes each. From the
description of the format in LMDB's own source.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from msgspec import Struct

_PAGE = struct.Struct("<QHHHH")
_MAGIC, _FORMAT = 0xBEEFC0DE, 1
_HEAD = struct.Struct(
    "<II8x8xI2xH8x8x8x8xQ48xQQ"
)  # magic, format, page size, depth and root of the free list, last, id
_NODE = struct.Struct("<HHHH")
_NUMBER = struct.Struct("<Q")
_BRANCH, _LEAF, _LARGE = 1, 2, 4
_NONE = (1 << 64) - 1
_BIG_VALUE = 1

ReadPages = Callable[[int, int], bytes]
"""Returns so many pages from a number on."""


class PagesFault(Exception):
    """The file is not in order, or not of this format."""


class FileHead(Struct, frozen=True):
    """What a transaction has committed: its number, the size of a page, the last page that was ever used, and the root
    of the tree of free pages."""

    transaction: int
    page_bytes: int
    last: int
    free_root: int


def read_head(page: bytes) -> FileHead:
    """Return the head in one of the first two pages; raise `PagesFault`."""
    try:
        magic, version, page_bytes, _, root, last, transaction = _HEAD.unpack_from(page, _PAGE.size)
    except struct.error:
        raise PagesFault("the head is cut") from None
    if (magic, version) != (_MAGIC, _FORMAT) or not 512 <= page_bytes <= 1 << 16:
        raise PagesFault("the head is of another format")
    return FileHead(transaction, page_bytes, last, root)


def free_pages(head: FileHead, read: ReadPages) -> bytearray:
    """Return a byte for each page up to the last one: 1 if it is free. Raise `PagesFault`."""
    found = bytearray(head.last + 1)
    try:
        _walk(found, head, read)
    except (struct.error, IndexError):
        raise PagesFault("the list of free pages is damaged") from None
    return found


def _walk(found: bytearray, head: FileHead, read: ReadPages) -> None:
    waiting = [] if head.free_root == _NONE else [head.free_root]
    for _ in range(len(found)):
        if not waiting:
            return
        number = waiting.pop()
        page = read(number, 1) if number <= head.last else b""
        said, _, flags, lower, _ = _PAGE.unpack_from(page)
        if said != number or not flags & (_BRANCH | _LEAF) or not _PAGE.size <= lower <= head.page_bytes:
            raise IndexError
        for at in struct.unpack_from(f"<{(lower - _PAGE.size) // 2}H", page, _PAGE.size):
            if flags & _BRANCH:
                low, high, highest, _ = _NODE.unpack_from(page, at)
                waiting.append(low | high << 16 | highest << 32)
            else:
                _note(found, _row(head, page, at, read))
    raise IndexError  # there are more of them than pages


def _row(head: FileHead, page: bytes, at: int, read: ReadPages) -> bytes:
    low, high, flags, key_bytes = _NODE.unpack_from(page, at)
    start, size = at + _NODE.size + key_bytes, low | high << 16
    if not flags & _BIG_VALUE:
        return page[start : start + size]
    [number] = _NUMBER.unpack_from(page, start)
    if number > head.last:
        raise IndexError
    return read(number, -(-(_PAGE.size + size) // head.page_bytes))[_PAGE.size : _PAGE.size + size]


def _note(found: bytearray, row: bytes) -> None:
    [count] = _NUMBER.unpack_from(row)
    if count * _NUMBER.size >= len(row):
        raise IndexError
    for number in struct.unpack_from(f"<{count}Q", row, _NUMBER.size):
        found[number] = 1


class PagesCheck:
    """Looks at the pages of a file from the third one on, clears those that are free, and raises `PagesFault` at the
    first one in use that is not where it says it is."""

    def __init__(self, head: FileHead, free: bytearray) -> None:
        self._head, self._free = head, free
        self._large_until = 0  # pages that hold nothing but a part of a value

    def __repr__(self) -> str:
        return f"<check of {self._head.last + 1} pages>"

    def look(self, first: int, block: bytearray) -> None:
        """Check and clear the pages from number `first` on, in place."""
        size, free = self._head.page_bytes, self._free
        number, end, empty = first, first + len(block) // self._head.page_bytes, bytes(self._head.page_bytes)
        while number < end:
            at = (number - first) * size
            if number < self._large_until:
                number = min(end, self._large_until)
                continue
            if free[number]:
                block[at : at + size] = empty
            else:
                said, _, flags, low, high = _PAGE.unpack_from(block, at)
                if said != number or flags & 7 not in (_BRANCH, _LEAF, _LARGE):
                    raise PagesFault(f"page {number} is damaged")
                if flags & _LARGE:
                    self._large_until = number + max(1, low | high << 16)
            number += 1
