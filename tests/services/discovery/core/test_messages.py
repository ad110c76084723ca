"""Messages between discovery services: exact bytes, round trips, closed maps, limits, and bytes cut or changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ADDRESSES, ADVERTISEMENTS, value_of
from samples.discovery import ENTRIES, FIRST, MESSAGES, SECOND

from router.core.wire.advert import Advertisement
from router.core.wire.codec import Malformed, TooLarge, encode
from router.core.wire.forms import UnknownMessage
from router.core.wire.meeting import Meet, Met
from router.core.wire.reasons import Reason, reason_from
from router.service.plugins import load_reasons
from services.discovery import reasons
from services.discovery.core.messages import (
    DIALLED_BYTES_MAX,
    MET_BYTES_MAX,
    VIEW_BYTES_MAX,
    Dialled,
    DialMe,
    Entry,
    Message,
    Named,
    Sample,
    Sampled,
    decode_message,
    encode_message,
)

ADVERT = value_of(ADVERTISEMENTS[0].wire)
AT = ADDRESSES[0].encoded()


@pytest.mark.parametrize("value", [*MESSAGES, *ADVERTISEMENTS], ids=lambda value: type(value).__name__)
def test_round_trip(value: Message) -> None:
    assert decode_message(encode_message(value)) == value


def test_exact_bytes() -> None:
    full = [[0, ADVERT], [24, value_of(ADVERTISEMENTS[1].wire)], [255, ADVERT]]
    assert encode_message(Sample(ENTRIES)) == encode([2, {"view": full}])
    assert encode_message(Sampled(())) == encode([3, {"view": []}])
    assert encode_message(Meet(FIRST)) == encode([4, {"n": FIRST}])
    tags = (b"a" * 16, b"b" * 16)
    assert encode_message(Met(FIRST, SECOND, tags)) == encode([5, {"n": FIRST, "to": SECOND, "tags": list(tags)}])
    assert encode_message(DialMe(FIRST, 4101)) == encode([6, {"n": FIRST, "port": 4101}])
    assert encode_message(Dialled(FIRST, ADDRESSES[0])) == encode([7, {"n": FIRST, "at": AT, "result": 0}])
    refused = {"n": FIRST, "at": AT, "result": 22, "text": "no"}
    assert encode_message(Dialled(FIRST, ADDRESSES[0], 22, "n\x1bo")) == encode([7, refused])
    assert encode_message(Named("anns-laptop")) == encode([8, {"name": "anns-laptop"}])


def test_advertisements_travel_as_they_were_received() -> None:
    """Advertisements with an address of a kind that this version does not know are kept unchanged, too."""
    odd = ADVERT | {"addr": [5, [[77, {"x": 1}], AT]]}
    found = decode_message(encode([3, {"view": [[7, odd]]}]))
    assert isinstance(found, Sampled)
    assert found.view[0].advert.wire == encode(odd) and encode_message(found) == encode([3, {"view": [[7, odd]]}])


AGES = st.integers(0, 255)
VIEWS = st.lists(st.builds(Entry, AGES, st.sampled_from(ADVERTISEMENTS)), max_size=8).map(tuple)
NONCES = st.binary(min_size=16, max_size=16)
VALUES: st.SearchStrategy[Message] = st.one_of(
    VIEWS.filter(bool).map(Sample),
    VIEWS.map(Sampled),
    st.builds(Met, NONCES, NONCES, st.lists(NONCES, max_size=40).map(tuple)),
    st.builds(DialMe, NONCES, st.integers(1, 65_535)),
    st.builds(Named, st.from_regex(r"([A-Za-z0-9_][A-Za-z0-9._-]{0,63})?", fullmatch=True)),
    st.builds(Dialled, NONCES, st.sampled_from(ADDRESSES), st.none() | st.integers(1, 65_535)),
)


@given(VALUES)
def test_whatever_is_sent_is_read_back(value: Message) -> None:
    assert decode_message(encode_message(value)) == value


@pytest.mark.parametrize(
    ("body", "cause"),
    (
        ([2, {"view": []}], "view has 0 items; 1 to 8 are allowed"),
        ([2, {"view": [[0, ADVERT]] * 9}], "view has 9 items; 1 to 8 are allowed"),
        ([3, {"view": [[0, ADVERT]] * 9}], "view has 9 items; 0 to 8 are allowed"),
        ([3, {}], "SAMPLED lacks view"),
        ([3, {"view": [], "x": 1}], "SAMPLED has a key that is not known"),
        ([3, {"view": [[256, ADVERT]]}], "age is not an unsigned number up to 255"),
        ([3, {"view": [[0, ADVERT, 1]]}], "an entry has 3 items"),
        ([3, {"view": [[0, ADVERTISEMENTS[0].wire]]}], "an advertisement is not a map"),
        ([3, {"view": [[0, ADVERT | {"x": 1}]]}], "an advertisement has a key that is not known"),
        ([3, {"view": [[0, ADVERT | {"grps": [bytes(32)] * 65}]]}], "grps has 65 items; 0 to 64"),
        ([4, {"n": FIRST, "x": 1}], "it holds more than 5 items"),
        ([4, {"x": FIRST}], "MEET lacks n"),
        ([5, {"n": FIRST, "to": SECOND, "tags": [b"t"]}], "a tag has 1 bytes instead of 16"),
        ([6, {"n": FIRST, "port": 0}], "port is 0; ports go from 1 to 65535"),
        ([6, {"n": FIRST, "port": 1 << 16}], "port is not an unsigned number up to 65535"),
        ([7, {"n": FIRST, "at": [9], "result": 0}], "at is of a kind that is not known"),
        ([7, {"n": FIRST, "at": [5, [AT]], "result": 0}], "at is a list of addresses where one address stands"),
        ([7, {"n": FIRST, "at": AT, "result": 1 << 16}], "result is not an unsigned number up to 65535"),
        ([7, {"n": FIRST, "at": AT, "result": 0, "text": "x" * 201}], "text is longer than 200 bytes"),
        ([8, {"name": 'of "hub"'}], "name has other characters than letters, digits"),
        ([8, {"name": "x" * 65}], "name is longer than 64 bytes"),
        ([4, {"n": FIRST}, 1], "a message to discovery has 3 values instead of 2"),
        ([4], "a message to discovery has 1 values instead of 2"),
        (["4", {}], "its type is not an unsigned number"),
        ({}, "not an array"),
    ),
    ids=lambda value: repr(value)[:60],
)  # fmt: skip
def test_refused(body: Any, cause: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode_message(encode(body))
    assert str(caught.value).startswith(cause)


@pytest.mark.parametrize("kind", (0, 9, 24, 1 << 40))
def test_unknown_types_are_told_apart(kind: int) -> None:
    with pytest.raises(UnknownMessage, match=f"discovery message type {kind} is unknown"):
        decode_message(encode([kind, {}]))


@pytest.mark.parametrize("value", MESSAGES, ids=lambda value: type(value).__name__)
def test_cut_or_changed_anywhere_it_is_refused_or_another(value: Message) -> None:
    body = encode_message(value)
    for end in range(len(body)):
        with pytest.raises(Malformed):
            decode_message(body[:end])
    for at in range(len(body)):
        changed = body[:at] + bytes((body[at] ^ 0x01,)) + body[at + 1 :]
        try:
            found = decode_message(changed)
        except Malformed:
            continue
        assert found != value and encode_message(found) == changed
        for one in (*getattr(found, "view", ()), *([Entry(0, found)] if isinstance(found, Advertisement) else [])):
            assert not one.advert.verify() or one.advert in ADVERTISEMENTS


@pytest.mark.parametrize(
    ("kind", "bytes_max"), ((2, VIEW_BYTES_MAX), (3, VIEW_BYTES_MAX), (5, MET_BYTES_MAX), (7, DIALLED_BYTES_MAX))
)
def test_limits(kind: int, bytes_max: int) -> None:
    with pytest.raises(TooLarge, match=rf"of {bytes_max + 1} bytes; the limit is {bytes_max}$"):
        decode_message(bytes((0x82, kind)) + bytes(bytes_max - 1))
    assert bytes_max <= 65_536


def test_the_longest_of_each_is_within_its_limits() -> None:
    tags = tuple(n.to_bytes(16, "big") for n in range(1024))
    for value in (Met(FIRST, SECOND, tags), Sample(ENTRIES[:1] * 8), Sampled(ENTRIES[1:2] * 8)):
        assert decode_message(encode_message(value)) == value
    dialled = Dialled(FIRST, ADDRESSES[3], 65_535, "x" * 200)
    assert decode_message(encode_message(dialled)) == dialled


def test_our_own_mistakes_are_found_before_they_are_sent() -> None:
    wrong: tuple[Message, ...] = (
        Sample(()), Sampled(ENTRIES[:1] * 9), DialMe(FIRST, 0), Meet(b""), Sample((Entry(256, ADVERTISEMENTS[0]),)),
    )  # fmt: skip
    for one in wrong:
        with pytest.raises(ValueError, match=r".+"):
            encode_message(one)


def test_the_reasons_of_discovery() -> None:
    found = {int(one): one for one in vars(reasons).values() if isinstance(one, Reason)}
    words = {number: reason.word for number, reason in found.items()}
    assert words == {
        200: "advert:stale", 201: "advert:address", 202: "lan:off-link", 203: "lan:flood", 204: "dial:budget",
        205: "lan:full",
    }  # fmt: skip
    assert all(reason_from(number) is reason and reason.sentence.endswith(".") for number, reason in found.items())
    assert {number for number, reason in found.items() if reason.later} == {203, 204, 205}
    load_reasons("services.discovery")  # it checks their range
