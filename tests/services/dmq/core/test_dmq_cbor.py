"""The CBOR reader that tells where each item lies, and the scanner that finds the end of an item in pieces."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.codec import CutShort, Malformed, TooLarge, encode
from services.dmq.core.cbor import DEPTH_MAX, ItemScanner, Reader, array_of, indefinite

PLAIN = st.recursive(
    st.integers(-(1 << 63), (1 << 64) - 1) | st.binary(max_size=40) | st.text(max_size=20) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.integers(0, 99), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN, st.binary(max_size=4))
def test_the_end_of_an_item_is_found_whole_and_byte_by_byte(value: Any, rest: bytes) -> None:
    item = encode(value)
    assert ItemScanner().end_in(item + rest) == len(item)
    scanner = ItemScanner()
    ends = [scanner.end_in(item[:size]) for size in range(len(item) + 1)]
    assert ends == [None] * len(item) + [len(item)]


@pytest.mark.parametrize(
    "item", ("9f01820203ff", "bf0102ff", "9f9f9fffff00ff", "c11a514b67b0", "f97e00", "fb7ff8000000000000")
)
def test_indefinite_lists_tags_and_floats_are_items_too(item: str) -> None:
    """Such items may be in data that is skipped: that of unknown versions."""
    data = bytes.fromhex(item)
    assert ItemScanner().end_in(data + b"\x00") == len(data)
    reader = Reader(b"\x00" + data, 1)
    assert reader.skip() == slice(1, 1 + len(data)) and reader.at == 1 + len(data)


@pytest.mark.parametrize(
    ("item", "cause"),
    (
        ("ff", "a break stands where nothing of indefinite length is open"),
        ("82ff", "a break stands"),
        ("5f4101ff", "a string or number of indefinite length"),
        ("7f6101ff", "a string or number of indefinite length"),
        ("1f", "a string or number of indefinite length"),
        ("1c", "byte 0x1c begins no item"),
        ("fe", "byte 0xfe begins no item"),
        ("81" * DEPTH_MAX + "00", "nested deeper than 16 levels"),
        ("9f" * DEPTH_MAX, "nested deeper than 16 levels"),
    ),
)
def test_what_is_not_cbor(item: str, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        ItemScanner().end_in(bytes.fromhex(item))


def test_an_announced_length_is_known_before_it_comes() -> None:
    scanner = ItemScanner()
    assert scanner.end_in(bytes.fromhex("825bffffffffffffffff00")) is None
    assert scanner.bytes_announced == 10 + (1 << 64) - 1
    assert repr(scanner) == f"<ItemScanner 2 levels deep, {9 + (1 << 64)} bytes on>"


def test_each_head_is_looked_at_once() -> None:
    """Bytes already scanned may change without the scanner noticing."""
    data = bytearray(encode([[1, 2, 3], b"0123456789", 7]))
    scanner = ItemScanner()
    assert scanner.end_in(data[:-1]) is None
    data[:-1] = b"\xff" * (len(data) - 1)
    assert scanner.end_in(data) == len(data)


def test_the_places_of_strings() -> None:
    data = encode([b"abc", "\u00e4", True, False, 1 << 40])
    reader = Reader(data)
    assert reader.array("it", 5) == 5
    assert data[reader.octets("it", 3)] == b"abc" and reader.text("it", 2) == "\u00e4"
    assert (reader.boolean("it"), reader.boolean("it"), reader.uint("it", 41)) == (True, False, 1 << 40)
    reader.finish("it")
    assert repr(reader) == f"<Reader at byte {len(data)} of {len(data)}>"


@pytest.mark.parametrize("written", ("05", "1805", "190005", "1a00000005", "1b0000000000000005"))
def test_numbers_longer_than_necessary_are_read(written: str) -> None:
    assert Reader(bytes.fromhex(written)).uint("it", 3) == 5


@pytest.mark.parametrize("items", ((), (1,), (1, [2], b"3")))
def test_lists_of_both_forms(items: tuple[Any, ...]) -> None:
    parts = [encode(one) for one in items]
    for data in (array_of(*parts), indefinite(*parts)):
        reader = Reader(data)
        found = [data[reader.skip()] for _ in reader.items("it", 3)]
        assert found == parts
        reader.finish("it")
        with pytest.raises(TooLarge, match="it holds more than 0 items") if items else pytest.raises(StopIteration):
            next(Reader(data).items("it", 0))


@pytest.mark.parametrize(
    ("call", "data", "cause"),
    (
        (lambda reader: reader.uint("it", 8), "190100", "it does not fit into 8 bits"),
        (lambda reader: reader.uint("it", 8), "20", "it is not an unsigned number"),
        (lambda reader: reader.uint("it", 8), "1f", "it is of indefinite length"),
        (lambda reader: reader.octets("it", 2), "4101", "it has 1 byte instead of 2"),
        (lambda reader: reader.octets("it", 2, 3), "4401020304", "it has 4 bytes instead of 2 to 3"),
        (lambda reader: reader.octets("it", 2), "620102", "it is not a byte string"),
        (lambda reader: reader.octets("it", 2), "4201", "it ends before the item does"),
        (lambda reader: reader.octets("it", 2), "5f4201ff", "it is of indefinite length"),
        (lambda reader: reader.text("it", 1), "626162", "it is longer than 1 bytes"),
        (lambda reader: reader.text("it", 1), "61ff", "it is not UTF-8"),
        (lambda reader: reader.boolean("it"), "f6", "it is neither true nor false"),
        (lambda reader: reader.boolean("it"), "f815", "it is neither true nor false"),
        (lambda reader: reader.array("it", 2), "83010203", "it has 3 items instead of 2"),
        (lambda reader: reader.array("it", 1, 2), "80", "it has 0 items instead of 1 or 2"),
        (lambda reader: reader.array("it", 2), "9f0102ff", "it is of indefinite length where a definite one"),
        (lambda reader: reader.map("it", 1), "a2", "it holds more than 1 entries"),
        (lambda reader: reader.map("it", 1), "80", "it is not a map"),
        (lambda reader: list(reader.items("it", 9)), "a0", "it is not a list"),
        (lambda reader: [reader.skip() for _ in reader.items("it", 9)], "9f01", "it ends before the item does"),
        (lambda reader: reader.skip(), "8201", "it ends before the item does"),
        (lambda reader: reader.finish("it"), "00", "1 byte follows it"),
        (lambda reader: reader.uint("it", 8), "", "it ends before the item does"),
        (lambda reader: reader.uint("it", 8), "1901", "it ends before the item does"),
    ),
)  # fmt: skip
def test_what_is_refused(call: Any, data: str, cause: str) -> None:
    with pytest.raises(Malformed, match=cause) as caught:
        call(Reader(bytes.fromhex(data)))
    assert isinstance(caught.value, CutShort) is cause.startswith("it ends before")


@given(st.binary(max_size=60))
def test_any_bytes_are_an_item_or_not_as_another_reader_finds(data: bytes) -> None:
    """An item that the scanner takes for whole has the length that cbor2 finds, where cbor2 accepts it."""
    try:
        end = ItemScanner().end_in(data)
    except Malformed:
        return
    if end is None:
        with pytest.raises(cbor2.CBORDecodeError):
            cbor2.loads(data)
        return
    try:
        cbor2.loads(data[:end])
    except (cbor2.CBORDecodeError, ValueError):
        return
    with pytest.raises(cbor2.CBORDecodeEOF):
        cbor2.loads(data[: end - 1])


DIGESTS = st.lists(st.tuples(st.binary(min_size=30, max_size=33), st.integers(0, 1 << 17)), max_size=6)


@given(DIGESTS, st.integers(1, 50))
def test_a_list_of_digests_ends_where_it_ends_also_when_they_are_skipped_together(
    pairs: list[tuple[bytes, int]], piece: int
) -> None:
    for items in ([encode(list(one)) for one in pairs], [encode(one) for one, _ in pairs]):
        data = array_of(encode(2), indefinite(*items))
        scanner = ItemScanner()
        ends = [scanner.end_in(data[:cut]) for cut in range(piece, len(data), piece)]
        assert not any(ends) and scanner.end_in(data + b"\x00") == len(data)
