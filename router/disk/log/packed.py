"""Compressed files of the log, as `events-….jsonl.zst`: their text is the file that was compressed, byte for byte.

A router writes zstd's seekable format: frames of `FRAME_BYTES` of text, and behind them a skippable frame with their
sizes, so that the last line is read without the others. `zstd -d` reads it as any other .zst, and any other .zst is
read here too, from its beginning.
"""

from __future__ import annotations

import io
import os
import struct
import sys
from bisect import bisect_right
from collections.abc import Iterator
from errno import EBADMSG, EFBIG
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from spark_analytics.judgement.schema import PACKED, UNPACKED_BYTES_MAX

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

FRAME_BYTES = 1 << 20
"""Bytes of text in a frame: what a reader unpacks for one line."""
LEVEL = 3
"""zstd's own default; a higher level takes twice the time for a twentieth less."""
WINDOW_LOG_MAX = 23
"""What a reader keeps of the unpacked bytes at the most, as a power of two: `zstd -19` needs no more."""
READ_BYTES = 1 << 18
GIVEN_BYTES = 1 << 16
"""Bytes of a file that are unpacked at a time; those behind the end of a frame are copied once for each frame."""
FRAMES_READ_MAX = 1 << 14
"""Most frames that are read of a file: one without text has nine bytes, and takes 20 microseconds."""
_TABLE = struct.Struct("<II")  # magic number of a skippable frame, bytes behind it
_ENTRY = struct.Struct("<II")  # bytes of a frame, bytes of its text
_END = struct.Struct("<IBI")  # number of frames, flags, magic number of the format
_TABLE_MAGIC, _SEEKABLE_MAGIC, _FLAGS = 0x184D2A5E, 0x8F92EAB1, 0
FRAMES_MAX = UNPACKED_BYTES_MAX // FRAME_BYTES + 1
"""Most frames in a table; a file with a longer one is read from its beginning."""


class NotUnpacked(OSError):
    """A compressed file is damaged, cut off, or too large; `strerror` says which."""


def is_packed(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(PACKED)


def packed_path(path: Path) -> Path:
    """Return the path of the compressed form of a file."""
    return path.with_name(path.name + PACKED)


def plain_path(path: Path) -> Path:
    """Return the path that the file has without compression."""
    return path.with_name(path.name.removesuffix(PACKED))


def open_text(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file of the log to read its text, compressed or not; where the plain file is gone, its compressed form.

    Raise `OSError`, and while reading `NotUnpacked`.
    """
    try:
        file = open(path, "rb")  # noqa: PTH123, SIM115 - names need not be UTF-8
    except FileNotFoundError:
        if is_packed(path):
            raise
        file = open(os.fspath(path) + PACKED, "rb")  # noqa: PTH123, SIM115
        return _buffered(file)
    return _buffered(file) if is_packed(path) else file


def text_size(path: Path) -> int:
    """Return the bytes of a file's text. Raise `OSError`."""
    if not is_packed(path):
        return path.stat().st_size
    with open_text(path) as file:
        return file.seek(0, os.SEEK_END)


def pack(source: BinaryIO, target: BinaryIO, most: int = UNPACKED_BYTES_MAX) -> int:
    """Write the compressed form of the source's text; return its bytes. Raise `NotUnpacked` if there are more than
    `most`, which no reader would take."""
    sizes = list[tuple[int, int]]()
    while text := source.read(FRAME_BYTES):
        frame = zstd.compress(text, LEVEL)
        target.write(frame)
        sizes.append((len(frame), len(text)))
    size = sum(text for _, text in sizes)
    if size > most:
        raise _too_large(most)
    entries = b"".join(_ENTRY.pack(*one) for one in sizes)
    target.write(_TABLE.pack(_TABLE_MAGIC, len(entries) + _END.size))
    target.write(entries + _END.pack(len(sizes), _FLAGS, _SEEKABLE_MAGIC))
    return size


def has_digest(file: BinaryIO, size: int, digest: str) -> bool:
    """Whether the next `size` bytes are there and have that SHA-256 (hex)."""
    found, left = sha256(), size
    while left and (data := file.read(min(left, READ_BYTES))):
        found.update(data)
        left -= len(data)
    return not left and found.hexdigest() == digest


def _buffered(file: BinaryIO) -> BinaryIO:
    try:
        return cast(BinaryIO, io.BufferedReader(_Unpacked(file), READ_BYTES))
    except OSError:
        file.close()
        raise


def _too_large(most: int) -> NotUnpacked:
    return NotUnpacked(EFBIG, f"it unpacks to more than {most:,} bytes, the most that is read of a compressed file")


def _too_many_frames() -> NotUnpacked:
    text = f"it has more than {FRAMES_READ_MAX:,} frames, the most that is read of a compressed file"
    return NotUnpacked(EFBIG, f"{text}: compress its text again")


def _damaged(error: zstd.ZstdError, at: int) -> NotUnpacked:
    said = str(error).rpartition(": ")[2]
    if "too much memory" in said:
        text = f"it was compressed with a window of more than {1 << WINDOW_LOG_MAX:,} bytes"
        return NotUnpacked(EFBIG, f"{text}: compress its text again, by `zstd -19` or less")
    return NotUnpacked(EBADMSG, f"its compression is damaged after {at:,} bytes of text ({said})")


class _Unpacked(io.RawIOBase):
    """The text of a compressed file, which is closed with it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._starts, self._frames = _table(file)
        self._restart(0, 0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            offset += self._starts[-1] if self._starts else sum(map(len, self._rest()))
        elif whence == os.SEEK_CUR:
            offset += self._at
        frame = bisect_right(self._starts, offset) - 1 if self._starts else 0
        start = self._starts[frame] if self._starts else 0
        if offset < self._at or start > self._at:
            self._restart(self._frames[frame] if self._starts else 0, start)
        while self._at < offset and self._read(min(READ_BYTES, offset - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()

    def _restart(self, place: int, at: int) -> None:
        self._file.seek(place)
        self._at, self._begun = at, 0
        self._begin(b"")

    def _begin(self, data: bytes) -> None:
        """Begin a frame of which these bytes are read already."""
        self._unpacker = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX})
        self._given = data
        self._is_within = False

    def _rest(self) -> Iterator[bytes]:
        """Yield the text before the present place again, and then what follows, part by part."""
        self._restart(0, 0)
        while data := self._read(READ_BYTES):
            yield data

    def _read(self, most: int) -> bytes:
        """Return the next bytes of text, b"" at the end."""
        data = b""
        while most and not data:
            if self._unpacker.eof:
                self._begin(self._unpacker.unused_data)
            if not self._given and self._unpacker.needs_input:
                self._given = self._file.read(GIVEN_BYTES)
                if not self._given:
                    if self._is_within:
                        raise NotUnpacked(
                            EBADMSG, f"it is cut off: its compression ends after {self._at:,} bytes of text"
                        )
                    return b""
            self._begun += not self._is_within
            if self._begun > FRAMES_READ_MAX:
                raise _too_many_frames()
            given, self._given, self._is_within = self._given, b"", True
            try:
                data = self._unpacker.decompress(given, most)
            except zstd.ZstdError as error:
                raise _damaged(error, self._at) from None
        self._at += len(data)
        if self._at > UNPACKED_BYTES_MAX:
            raise _too_large(UNPACKED_BYTES_MAX)
        return data


def _table(file: BinaryIO) -> tuple[list[int], list[int]]:
    """Return where each frame's text and each frame begin, and where the last ones end; two empty lists if the file has
    no table that fits it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    if len(end) < _END.size:
        return [], []
    count, flags, magic = _END.unpack(end)
    length = _TABLE.size + count * _ENTRY.size + _END.size
    if (magic, flags) != (_SEEKABLE_MAGIC, _FLAGS) or not 0 < count <= FRAMES_MAX or length > size:
        return [], []
    file.seek(size - length)
    data = file.read(length)
    if data[: _TABLE.size] != _TABLE.pack(_TABLE_MAGIC, length - _TABLE.size):
        return [], []
    entries = list(_ENTRY.iter_unpack(data[_TABLE.size : -_END.size]))
    frames = list(accumulate((packed for packed, _ in entries), initial=0))
    starts = list(accumulate((text for _, text in entries), initial=0))
    is_it = frames[-1] == size - length and all(text for _, text in entries) and starts[-1] <= UNPACKED_BYTES_MAX
    return (starts, frames) if is_it else ([], [])
