"""Numbers and byte vectors as the reference writes them: little-endian, and lengths as "compact sizes"."""

from __future__ import annotations

from struct import Struct

from router.core.wire.codec import CutShort, Malformed, TooLarge

SIZE_MAX = 0x1000_0000
"""A length beyond this is refused before anything is read, as by the reference."""
LONG = 0xFD
"""Lengths from this one on take more than one byte."""
_SHORT = tuple(bytes((length,)) for length in range(LONG))
_WIDTHS = {0xFD: (2, 0xFD), 0xFE: (4, 1 << 16), 0xFF: (8, 1 << 32)}
_U16, _U32 = Struct("<H"), Struct("<I")


def size_head(length: int) -> bytes:
    """Return the compact size of a length."""
    if length < LONG:
        return _SHORT[length]
    if length < 1 << 16:
        return b"\xfd" + _U16.pack(length)
    return b"\xfe" + _U32.pack(length)


def vector(data: bytes) -> bytes:
    """Return a byte vector: its length, and its bytes."""
    length = len(data)
    return (_SHORT[length] if length < LONG else size_head(length)) + data


class Reader:
    """Reads values one after the other. Raises `Malformed` where the bytes do not hold the expected value."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def __repr__(self) -> str:
        return f"<Reader at byte {self.at} of {len(self.data)}>"

    @property
    def rest(self) -> int:
        """Return the number of bytes that are left."""
        return len(self.data) - self.at

    def take(self, count: int, name: str) -> bytes:
        """Return the next bytes."""
        end = self.at + count
        if end > len(self.data):
            raise CutShort(f"the data ends within {name}: {count} bytes are needed, {self.rest} are left")
        found = self.data[self.at : end]
        self.at = end
        return found

    def uint(self, width: int, name: str) -> int:
        """Return an unsigned number of `width` bytes."""
        return int.from_bytes(self.take(width, name), "little")

    def size(self, name: str, most: int = SIZE_MAX) -> int:
        """Return a compact size, in its shortest form and at most `most`."""
        first = self.uint(1, f"the length of {name}")
        if first not in _WIDTHS:
            found = first
        else:
            width, least = _WIDTHS[first]
            found = self.uint(width, f"the length of {name}")
            if found < least:
                raise Malformed(f"the length of {name} is non-canonical: {found} has a shorter form")
        if found > most:
            raise TooLarge(f"the size of {name} is too large: {found} bytes; the limit is {most}")
        return found

    def vector(self, name: str, most: int = SIZE_MAX) -> bytes:
        """Return the bytes of a vector."""
        return self.take(self.size(name, most), name)
