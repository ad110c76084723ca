"""A small CBOR reader that tells where each item lies, because received bytes are hashed, verified and passed on
unchanged.

It reads only the types in a DMQ node's messages: unsigned numbers, byte strings, texts, truth values, arrays and maps.
Numbers and lengths that are longer than necessary are accepted, as in the deployed nodes; strings of indefinite length
are not. Every check takes the name of the item, for the text of the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from router.core.wire.codec import CutShort, Malformed, TooLarge, head
from router.core.wire.text import counted

UINT, OCTETS, TEXT, ARRAY, MAP, SIMPLE = 0, 2, 3, 4, 5, 7
INDEFINITE = -1
BREAK = 0xFF
DEPTH_MAX = 16
"""Most levels of nested items: the messages of all protocols need six."""
_DIGESTS = re.compile(rb"(?:\x82\x58\x20.{32}(?:[\x00-\x17]|\x18.|\x19..))+|(?:\x58\x20.{32})+", re.DOTALL)
"""Digests, or pairs of a digest and a number below 2^16: what most long lists of these protocols hold."""
Skips = Callable[[bytes | bytearray, int], int]
"""Returns the end of a well-known item that begins there, or -1."""
_KINDS = {
    UINT: "an unsigned number", OCTETS: "a byte string", TEXT: "a text", ARRAY: "a list", MAP: "a map",
    SIMPLE: "true or false",
}  # fmt: skip


def read_head(data: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """Return the major type, the argument (`INDEFINITE`, also for a break) and the end of the head at `at`."""
    if at >= len(data):
        raise CutShort("it ends before the item does")
    first = data[at]
    argument = first & 31
    if argument < 24:
        return first >> 5, argument, at + 1
    if argument < 28:
        end = at + 1 + (1 << argument - 24)
        if end > len(data):
            raise CutShort("it ends before the item does")
        return first >> 5, int.from_bytes(data[at + 1 : end], "big"), end
    if argument < 31:
        raise Malformed(f"byte 0x{first:02x} begins no item of CBOR")
    return first >> 5, INDEFINITE, at + 1


class Reader:
    """Reads items from `data` one after another; `at` is where the next begins."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def __repr__(self) -> str:
        return f"<Reader at byte {self.at} of {len(self.data)}>"

    def uint(self, name: str, bits: int) -> int:
        """Read an unsigned number below 2^bits, of any encoded length."""
        number = self._head(UINT, name)
        if number >> bits:
            raise Malformed(f"{name} does not fit into {bits} bits")
        return number

    def octets(self, name: str, least: int, most: int | None = None) -> slice:
        """Read a byte string of `least` to `most` bytes, or of exactly `least`, and return the place of its content."""
        length = self._head(OCTETS, name)
        if not least <= length <= (least if most is None else most):
            wanted = f"{least:,}" if most is None else f"{least:,} to {most:,}"
            raise Malformed(f"{name} has {counted(length, 'byte')} instead of {wanted}")
        return self._content(length)

    def text(self, name: str, bytes_max: int) -> str:
        """Read a text of at most `bytes_max` bytes of UTF-8."""
        length = self._head(TEXT, name)
        if length > bytes_max:
            raise TooLarge(f"{name} is longer than {bytes_max} bytes")
        try:
            return str(self.data[self._content(length)], "utf-8")
        except UnicodeDecodeError:
            raise Malformed(f"{name} is not UTF-8") from None

    def boolean(self, name: str) -> bool:
        kind, argument, end = read_head(self.data, self.at)
        if kind != SIMPLE or argument not in (20, 21) or end != self.at + 1:
            raise Malformed(f"{name} is neither true nor false")
        self.at = end
        return argument == 21

    def array(self, name: str, *lengths: int) -> int:
        """Read the head of a list of definite length, one of `lengths`, and return its length."""
        length = self._head(ARRAY, name)
        if length not in lengths:
            wanted = " or ".join(f"{one:,}" for one in lengths)
            raise Malformed(f"{name} has {counted(length, 'item')} instead of {wanted}")
        return length

    def items(self, name: str, most: int) -> Iterator[int]:
        """Read the head of a list of either form, and yield the place of each item; the caller reads it."""
        kind, length, self.at = read_head(self.data, self.at)
        if kind != ARRAY:
            raise Malformed(f"{name} is not a list")
        count = 0
        while not self._ends(length, count):
            if count == most:
                raise TooLarge(f"{name} holds more than {most} items")
            yield self.at
            count += 1

    def map(self, name: str, most: int) -> int:
        """Read the head of a map of definite length, and return how many entries follow."""
        length = self._head(MAP, name)
        if length > most:
            raise TooLarge(f"{name} holds more than {most} entries")
        return length

    def skip(self, usual: Skips | None = None) -> slice:
        """Skip an item of any kind, and return its place. `usual`: tells the end of what is nearly always there."""
        end: int | None = usual(self.data, self.at) if usual is not None else -1
        if end == -1:
            end = ItemScanner().end_in(self.data, self.at)
        if end is None:
            raise CutShort("it ends before the item does")
        found = slice(self.at, end)
        self.at = end
        return found

    def finish(self, name: str) -> None:
        """Check that no bytes follow."""
        if self.at != len(self.data):
            rest = len(self.data) - self.at
            raise Malformed(f"{counted(rest, 'byte follows', 'bytes follow')} {name}, which ends at byte {self.at}")

    def _head(self, kind: int, name: str) -> int:
        found, argument, end = read_head(self.data, self.at)
        if found != kind:
            raise Malformed(f"{name} is not {_KINDS[kind]}")
        if argument == INDEFINITE:
            raise Malformed(f"{name} is of indefinite length where a definite one is required")
        self.at = end
        return argument

    def _content(self, length: int) -> slice:
        start, end = self.at, self.at + length
        if end > len(self.data):
            raise CutShort("it ends before the item does")
        self.at = end
        return slice(start, end)

    def _ends(self, length: int, count: int) -> bool:
        if length != INDEFINITE:
            return count == length
        if self.at >= len(self.data):
            raise CutShort("it ends before the item does")
        ends = self.data[self.at] == BREAK
        self.at += ends
        return ends


class ItemScanner:
    """Finds the end of a number of CBOR items in bytes that come in pieces; looks at each head once, and at no
    content."""

    __slots__ = ("_owed", "_seen", "_usual")

    def __init__(self, items: int = 1, usual: Skips | None = None) -> None:
        """`usual`: tells the end of the items that are usual in lists of indefinite length."""
        self._owed = [items]
        self._seen = 0
        self._usual = usual

    def __repr__(self) -> str:
        return f"<ItemScanner {len(self._owed)} levels deep, {self._seen} bytes on>"

    def end_in(self, data: bytes | bytearray, start: int = 0) -> int | None:
        """Return where the items at `start` end, or None if more bytes are needed: then ask again with all of them.

        Raises `Malformed` for bytes that are not CBOR.
        """
        at, owed, size = start + self._seen, self._owed, len(data)
        while owed and at < size:
            first = data[at]
            if owed[-1] == INDEFINITE and (end := self._usual_end(data, at, first)) > at:
                at = end
                continue
            kind, argument, end = first >> 5, first & 31, at + 1
            if argument == 24 and end < size:
                argument, end = data[end], at + 2
            elif argument == 25 and at + 2 < size:
                argument, end = data[end] << 8 | data[at + 2], at + 3
            elif argument > 23:
                try:
                    kind, argument, end = read_head(data, at)
                except CutShort:
                    break
            if kind < ARRAY and argument >= 0 and owed[-1] > 1:  # nearly all: not the last of its list, holds no items
                owed[-1] -= 1
                at = end + argument if kind > 1 else end
            else:
                at = end + self._count(kind, argument)
        self._seen = at - start
        return None if owed or at > size else at

    def _usual_end(self, data: bytes | bytearray, at: int, first: int) -> int:
        """Return the end of the usual items that begin at `at` in a list of indefinite length; -1: they are others."""
        if first in (0x82, 0x58):
            return -1 if (found := _DIGESTS.match(data, at)) is None else found.end()
        return -1 if self._usual is None else self._usual(data, at)

    @property
    def bytes_announced(self) -> int:
        """Return the least size of the item in bytes, by the heads read so far."""
        return self._seen

    def _count(self, kind: int, argument: int) -> int:
        """Count a head; return the length of the content that follows it."""
        owed = self._owed
        if kind == SIMPLE and argument == INDEFINITE:
            if owed[-1] >= 0:
                raise Malformed("a break stands where nothing of indefinite length is open")
            owed.pop()
        else:
            owed[-1] -= owed[-1] > 0
            self._open(kind, argument)
        while owed and owed[-1] == 0:
            owed.pop()
        return argument if kind in (OCTETS, TEXT) else 0

    def _open(self, kind: int, argument: int) -> None:
        if argument == INDEFINITE and kind not in (ARRAY, MAP):
            raise Malformed("a string or number of indefinite length is not part of these protocols")
        if kind in (ARRAY, MAP, 6):
            items = argument if kind == ARRAY else 2 * argument if kind == MAP else 1
            self._owed.append(INDEFINITE if argument == INDEFINITE else items)
            if len(self._owed) > DEPTH_MAX:
                raise Malformed(f"items are nested deeper than {DEPTH_MAX} levels")


def array_of(*items: bytes) -> bytes:
    """Return encoded items as a list of definite length."""
    return head(len(items), ARRAY) + b"".join(items)


def indefinite(*items: bytes) -> bytes:
    """Return encoded items as a list of indefinite length."""
    return b"\x9f" + b"".join(items) + b"\xff"
