"""A footer's content is signed, in exactly the bytes that the router signs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.logs import KEY, OTHER

from router.core.log.line import Line, encode_lines
from router.core.log.segment import SCHEMA, sign, signed_bytes
from router.core.wire.codec import encode
from router.core.wire.crypto import verify
from spark_analytics.judgement.footer import Footer, decode_line, read_footer, read_header

LINE = Line(
    1, "seal", router=KEY.public.hex(), n=6, first_seq=10, last_seq=15, segments=1, lines=4,
    counts={"start": 1, "accepted": 3, "delivered": 6}, min_t=2, max_t=9, predecessor="ab" * 32, sha256="cd" * 32,
)  # fmt: skip
SEALED = sign(LINE, KEY)
NATURALS = st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1))


def footer(line: Line) -> Footer:
    return read_footer(decode_line(encode_lines([line])))


def row(**changed: Any) -> dict[str, Any]:
    return decode_line(encode_lines([SEALED])) | changed


def test_a_footer_is_read() -> None:
    assert footer(SEALED) == Footer(
        KEY.public.hex(), 10, 15, 6, 1, 4, {"start": 1, "accepted": 3, "delivered": 6}, 2, 9, "ab" * 32, "cd" * 32,
        SEALED.signature or "",
    )  # fmt: skip
    assert footer(SEALED).is_authentic(verify)


def test_the_signed_bytes_by_value() -> None:
    assert footer(SEALED).signed_bytes() == signed_bytes(LINE)
    said = [1, KEY.public.hex(), 10, 15, 6, 1, 4, LINE.counts, 2, 9, "ab" * 32, "cd" * 32]
    assert footer(SEALED).signed_bytes() == b"upsycle event log seal 1" + encode(said)
    assert footer(SEALED).signed_bytes()[24:28] == bytes.fromhex("8c017840")


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=300), NATURALS, max_size=30),
    st.integers(1, 1 << 62), st.integers(1, 1 << 62), NATURALS, NATURALS, st.booleans(),
)  # fmt: skip
def test_the_signed_bytes_are_those_of_the_router(
    counts: dict[str, int], first: int, n: int, min_t: int, max_t: int, is_first: bool
) -> None:
    line = sign(Line(
        1, "seal", router=KEY.public.hex(), n=n, first_seq=first, last_seq=first + n - 1, segments=n, lines=first,
        counts=counts, min_t=min_t, max_t=max_t, predecessor=None if is_first else "00" * 32, sha256="ff" * 32,
    ), KEY)  # fmt: skip
    assert footer(line).signed_bytes() == signed_bytes(line)
    assert footer(line).is_authentic(verify)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("router", OTHER.public.hex()), ("segments", 2), ("lines", 5), ("counts", {"accepted": 3}), ("min_t", 1),
        ("max_t", 10), ("predecessor", None), ("predecessor", "ac" * 32), ("sha256", "00" * 32),
        ("signature", "00" * 64), ("counts", {"\ud800": 1}),
    ],
)  # fmt: skip
def test_with_anything_changed_it_is_not_authentic(column: str, value: Any) -> None:
    assert not read_footer(row(**{column: value})).is_authentic(verify)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"event": "seals"}, "the event 'seals' where a footer should be"),
        ({"v": 2}, "version 2 of the log; this audit reads version 1"),
        ({"v": True}, "version True of the log"),
        ({"v": None}, "version None of the log"),
        ({"router": None}, "a footer whose router is None, not 64 hex digits"),
        ({"router": KEY.public.hex().upper()}, "a footer whose router is"),
        ({"sha256": "cd" * 31}, "a footer whose sha256 is"),
        ({"sha256": "cd" * 32 + "\n"}, "a footer whose sha256 is"),
        ({"predecessor": 7}, "a footer whose predecessor is 7, not 64 hex digits"),
        ({"first_seq": 0}, "a footer whose first_seq is 0, not a number from 1 on"),
        ({"first_seq": 10.0}, "a footer whose first_seq is 10.0"),
        ({"lines": 1 << 63}, "a footer whose lines is"),
        ({"n": 5}, "a footer over the sequence numbers 10 to 15 that says they are 5"),
        ({"counts": {"start": -1}}, "a footer whose counts are no whole numbers by event"),
        ({"counts": None}, "a footer whose counts are no whole numbers by event"),
        ({"min_t": -1}, "a footer whose min_t and max_t are -1 and 9"),
        ({"signature": None}, "a footer without a signature of 128 hex digits"),
        ({"signature": (SEALED.signature or "").upper()}, "a footer without a signature of 128 hex digits"),
    ],
    ids=str,
)
def test_what_is_no_footer_says_why(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_footer(row(**changed))
    assert str(caught.value).startswith(text)


def test_a_header_is_read() -> None:
    header = Line(1, "segment", router=KEY.public.hex(), schema="upsycle event log 1", first_seq=3)
    found = read_header(decode_line(encode_lines([header])))
    assert (found.router, found.first_seq, found.predecessor) == (KEY.public.hex(), 3, None)
    with pytest.raises(ValueError, match="schema 'log 2', where 'upsycle event log 1' should be"):
        read_header(decode_line(encode_lines([header])) | {"schema": "log 2"})
    with pytest.raises(ValueError, match="the event 'seal' where the header of a segment should be"):
        read_header(row())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "not JSON from column 1 on"),
        (b'{"v":1', "not JSON from column 7 on"),
        (b'{"v":"\xff"}', "not UTF-8: byte 0xff at column 7"),
        ('{"v":1}'.encode("utf-16"), "not UTF-8: byte 0xff at column 1"),
        (b"[1]\n", "not a map of columns"),
        (b'{"v":NaN}', "not JSON: NaN is no number of JSON"),
        (b"[" * 100_000, "not JSON: "),
        (b'{"v":' + b"9" * 5000 + b"}", "not JSON: "),
        (bytes(100), "not JSON from column 1 on"),
    ],
    ids=range(9),
)
def test_what_is_no_line_says_why(line: bytes, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        decode_line(line)
    assert str(caught.value).startswith(text) and len(str(caught.value)) < 120


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda kids: st.lists(kids) | st.dictionaries(st.text(max_size=5), kids),
    )
)
def test_any_value_is_read_or_refused_in_words(value: Any) -> None:
    line = json.dumps(value).encode()
    for read in (read_footer, read_header):
        with pytest.raises(ValueError):
            read(decode_line(line))
    for column in row():
        try:
            assert read_footer(row(**{column: value})).is_authentic(verify) == (value == row()[column])
        except ValueError as error:
            assert 0 < len(str(error)) < 200


def header(**changed: Any) -> dict[str, Any]:
    line = Line(1, "segment", router=KEY.public.hex(), boot="00" * 16, schema=SCHEMA, first_seq=10, reasons=["a:b"])
    return decode_line(encode_lines([line])) | changed


def test_a_header_says_which_reasons_may_stand_in_its_segment() -> None:
    assert read_header(header()).reasons == frozenset({"a:b"})
    assert read_header(header(reasons=[])).reasons == frozenset()
    assert read_header(header(reasons=None)).reasons is None


@pytest.mark.parametrize("said", ["a:b", 7, {"a:b": 1}, ["a:b", 7], [""], ["A"], ["a b"], ["a" * 65], [["a"]], [None]])
def test_other_reasons_make_no_header(said: object) -> None:
    with pytest.raises(ValueError, match="a header whose reasons are no list of words"):
        read_header(header(reasons=said))
