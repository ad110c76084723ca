"""Deterministic CBOR (RFC 8949 §4.2.1) with limits, and the frames of a stream (R-A5, R-A10).

`decode` accepts one item and nothing else: no trailing bytes, no duplicate keys, no indefinite lengths, no
integer longer than necessary, nothing deeper than `DEPTH_MAX`, and no more items than the caller allows, counted
from their heads before anything is built. Determinism is checked by re-encoding: the result must equal the input.
Only plain values pass: no tag (so no date, bignum or regular expression is ever built from a stranger's bytes), no
float, no undefined.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, NoReturn

import cbor2

DEPTH_MAX = 16
FRAME_BYTES_MAX = (1 << 20) + 4096


class Malformed(ValueError):
    """Bytes that the specification does not allow; the text says where they go wrong."""


class TooLarge(Malformed):
    """An announced length is beyond the limit."""


class CutShort(Malformed):
    """The bytes end before the item that they begin."""


def encode(value: Any) -> bytes:
    """Return the deterministic CBOR of a plain value (int, bytes, str, bool, None, list, tuple, dict)."""
    return cbor2.dumps(value, canonical=True)


def _refuse_tag(*_: object) -> NoReturn:
    raise cbor2.CBORDecodeError("tags are not part of this protocol")


# By default cbor2 decodes these into dates, patterns, shared references and more.
_KNOWN_TAGS = (*range(6), 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799)
_TAGS = dict.fromkeys(_KNOWN_TAGS, _refuse_tag)


def decode(data: bytes, items_max: int, *, depth_max: int = DEPTH_MAX) -> Any:
    """Return the one item that `data` encodes, made of the plain values that `encode` takes; else raise `Malformed`.

    `items_max` counts every item: containers, their contents, and the keys of maps.
    """
    if len(data) > items_max:  # an item has at least one byte
        check_items(data, items_max)
    try:
        stream = BytesIO(data)
        decoder = cbor2.CBORDecoder(
            stream,
            tag_hook=_refuse_tag,
            semantic_decoders=_TAGS,
            max_depth=depth_max,
            allow_indefinite=False,
            allow_duplicate_keys=False,
        )
        value = decoder.decode()
    except cbor2.CBORDecodeEOF:
        raise CutShort("not CBOR: it ends before the item does") from None
    except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise Malformed(f"not CBOR: {str(error)[:120]}") from None
    if stream.tell() != len(data):
        raise Malformed(f"{len(data) - stream.tell()} bytes follow the item")
    if not _is_plain(value):
        raise Malformed("it holds a value that is not part of this protocol, or a map with unlike keys")
    if encode(value) != data:
        raise Malformed("not deterministically encoded")
    return value


def check_items(data: bytes, items_max: int) -> None:
    """Raise `TooLarge` at the first head in `data` by which more than `items_max` items are announced.

    Reads at most `items_max` heads and builds nothing. Data that is truncated or not CBOR passes: the decoder refuses
    it at the same place, having built no more than was counted here.
    """
    at, size, seen, owed = 0, len(data), 0, 1
    while owed and at < size:
        kind, argument = data[at] >> 5, data[at] & 31
        at += 1
        if argument >= 24:
            if argument > 27:
                return
            width = 1 << argument - 24
            argument = int.from_bytes(data[at : at + width], "big")
            at += width
        seen += 1
        owed -= 1
        if kind in (2, 3):
            at += argument
        elif kind == 4:
            owed += argument
        elif kind == 5:
            owed += 2 * argument
        elif kind == 6:
            owed += 1
        if seen + owed > items_max:
            raise TooLarge(f"it holds more than {items_max} items")


def first_of(data: bytes) -> tuple[int, int]:
    """Return the length of the array in `data` and its first value, an unsigned number; else raise `Malformed`.

    Only these two heads are read, so that a message's type is checked before its content is decoded.
    """
    if not b"\x81" <= data[:1] <= b"\x97":
        raise Malformed("not an array of 1 to 23 values")
    number = data[1] & 31 if len(data) > 1 else 31
    if number >= 24:
        number = int.from_bytes(data[2 : 2 + (1 << min(number - 24, 3))], "big")
    written = head(number, 0)
    if data[1 : 1 + len(written)] != written:
        raise Malformed("its type is not an unsigned number")
    return data[0] & 31, number


_ATOMS = frozenset((int, bytes, str, bool, type(None)))


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is list:
        return all(map(_is_plain, value))
    return kind is dict and _is_sortable(value) and all(map(_is_plain, value.values()))


def _is_sortable(keys: Any) -> bool:
    """Whether all keys are text, all byte strings, or all unsigned numbers.

    cbor2 sorts keys by length first, as RFC 7049 did; RFC 8949 sorts by bytes. On such keys both agree.
    """
    kinds = set(map(type, keys))
    return not kinds or (len(kinds) == 1 and (kinds <= {str, bytes} or (kinds == {int} and min(keys) >= 0)))


def head(length: int, major: int = 2) -> bytes:
    """Return the shortest CBOR head for a major type (2: byte string) and a length or value."""
    kind = major << 5
    if length < 24:
        return bytes((kind | length,))
    if length < 1 << 8:
        return bytes((kind | 24, length))
    if length < 1 << 16:
        return bytes((kind | 25,)) + length.to_bytes(2, "big")
    if length < 1 << 32:
        return bytes((kind | 26,)) + length.to_bytes(4, "big")
    return bytes((kind | 27,)) + length.to_bytes(8, "big")


def frame(item: bytes) -> bytes:
    """Return the bytes that carry one item on a stream: `frame = bstr .cbor item` (R-A10)."""
    return head(len(item)) + item


def unframe(data: bytes, at: int = 0) -> bytes:
    """Return the content of the byte string that spans `data[at:]` exactly; else raise `Malformed`."""
    return data[content_at(data, at, len(data)) :]


def content_at(data: bytes, at: int, end: int) -> int:
    """Return where the content of the byte string that spans `data[at:end]` exactly begins; else raise `Malformed`."""
    for head_bytes in (1, 2, 3, 5):
        length = end - at - head_bytes
        if length >= 0 and data[at : at + head_bytes] == head(length):
            return at + head_bytes
    raise Malformed("a byte string that ends where the data ends is missing")


_HEAD_BYTES = {24: 2, 25: 3, 26: 5}
_SHORTEST = {24: 24, 25: 1 << 8, 26: 1 << 16}


def frame_bounds(data: bytes, at: int, frame_bytes_max: float = FRAME_BYTES_MAX) -> tuple[int, int]:
    """Return where the item of the frame at `at` begins and ends, even if that lies beyond `data`.

    If even the frame's head is incomplete, both are where that head ends. Raises like `split_frames`.
    """
    first = data[at]
    if 0x40 <= first <= 0x57:
        start, length = at + 1, first - 0x40
    elif 0x58 <= first <= 0x5A:
        start = at + _HEAD_BYTES[first & 31]
        if start > len(data):
            return start, start
        length = int.from_bytes(data[at + 1 : start], "big")
        if length < _SHORTEST[first & 31]:
            raise Malformed("frame length is not in its shortest form")
    else:
        raise Malformed(f"byte 0x{first:02x} does not begin a frame (a CBOR byte string)")
    if length > frame_bytes_max:
        raise TooLarge(f"frame of {length} bytes; the limit is {frame_bytes_max}")
    return start, start + length


def split_frames(
    data: bytes, frame_bytes_max: float = FRAME_BYTES_MAX, at: int = 0, *, most: int = 1 << 30
) -> tuple[list[tuple[int, int, int]], int]:
    """Cut `data` into frames without copying, at most `most` of them.

    Returns `(spans, rest)`: a span is `(frame start, item start, end)`; `rest` is where the first frame begins that is
    incomplete, bad, or one too many. If the very first frame is bad, raises `Malformed` for a byte that cannot begin a
    frame, or `TooLarge` as soon as its head announces a length over the limit.
    """
    spans: list[tuple[int, int, int]] = []
    size = len(data)
    head_fits = size - 3
    try:
        for _ in range(most):
            if at <= head_fits and data[at] == 0x59:  # nearly every message: 256 bytes to 64 KiB
                start = at + 3
                length = data[at + 1] << 8 | data[at + 2]
                if not 256 <= length <= frame_bytes_max:
                    frame_bounds(data, at, frame_bytes_max)
                end = start + length
            elif at < size:
                start, end = frame_bounds(data, at, frame_bytes_max)
            else:
                break
            if end > size:
                break
            spans.append((at, start, end))
            at = end
    except Malformed:
        if not spans:
            raise
    return spans, at
