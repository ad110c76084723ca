"""Messages between pub/sub services: exact bytes, round trips, closed maps, limits, and bytes cut or changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ADVERTISEMENTS, ALICE, BOB, IDS, value_of
from samples.discovery import FIRST
from samples.pubsub import FILTERS, MESSAGES, OTHER_T, RINGS, VIEW, T

from router.core.wire.codec import Malformed, TooLarge, encode
from router.core.wire.crypto import MessageId
from router.core.wire.forms import UnknownMessage
from router.core.wire.meeting import Meet, Met
from router.core.wire.reasons import Reason, reason_from
from router.service.plugins import load, load_reasons
from services.pubsub import reasons
from services.pubsub.core.messages import (
    BODY_BYTES_MAX,
    AskGroups,
    AskInterests,
    AskRings,
    AskSums,
    Compare,
    Compared,
    Have,
    Interested,
    Member,
    Message,
    Ring,
    Sum,
    TellGroups,
    TellInterests,
    TellRings,
    TellSums,
    decode_message,
    encode_message,
    make_filter,
)

ADVERTS = [value_of(one.wire) for one in ADVERTISEMENTS[:2]]
FILTER = [0, bytes(128), FILTERS[0].signature]
ASKED = {"t": T, "lo": 0, "hi": 1, "m": b"a", "age": 0}
TOLD = {"t": T, "lo": 0, "hi": 1, "m": b"a", "order": b"", "old": 0}


@pytest.mark.parametrize("value", MESSAGES, ids=lambda value: type(value).__name__)
def test_round_trip(value: Message) -> None:
    assert decode_message(encode_message(value)) == value


def test_exact_bytes() -> None:
    rings = {"advs": ADVERTS, "rings": [[T, [[0, 0], [1, 25]]], [OTHER_T, [[1, 255]]]]}
    view = [[0, ADVERTS[0], FILTER], [255, ADVERTS[1], [FILTERS[1].rev, b"\x55" * 128, FILTERS[1].signature]]]
    assert encode_message(Meet(FIRST)) == encode([5, {"n": FIRST}])
    assert encode_message(Met(FIRST, T, (OTHER_T,))) == encode([6, {"n": FIRST, "to": T, "tags": [OTHER_T]}])
    assert encode_message(AskInterests(FILTERS[0], VIEW)) == encode([7, {"mine": FILTER, "view": view}])
    assert encode_message(TellInterests(FILTERS[0], ())) == encode([8, {"mine": FILTER, "view": []}])
    assert encode_message(AskRings(ADVERTISEMENTS[:2], RINGS)) == encode([9, rings])
    assert encode_message(TellRings((), (Ring(T, ()),))) == encode([10, {"advs": [], "rings": [[T, []]]}])
    compare = {"t": T, "lo": 1, "hi": 2, "m": b"a"}
    assert encode_message(Compare(T, 1, 2, b"a", 9)) == encode([11, compare | {"age": 9}])
    assert encode_message(Compared(T, 1, 2, b"a", b"o", 3)) == encode([12, compare | {"order": b"o", "old": 3}])
    assert encode_message(Have(T, IDS[:2])) == encode([13, {"t": T, "ids": list(IDS[:2])}])
    assert encode_message(AskGroups(T, 0, b"a")) == encode([15, {"a": T, "i": 0, "m": b"a"}])
    assert encode_message(TellGroups(T, 63, b"a")) == encode([16, {"a": T, "i": 63, "m": b"a"}])
    sums = {"i": 1, "lo": 2, "sums": T + OTHER_T + OTHER_T + T}
    assert encode_message(AskSums(1, 2, (Sum(T, OTHER_T), Sum(OTHER_T, T)))) == encode([19, sums])
    assert encode_message(TellSums(1, b"\2\0")) == encode([20, {"i": 1, "found": b"\2\0"}])


def test_advertisements_travel_as_they_were_received() -> None:
    odd = ADVERTS[0] | {"addr": [5, [[77, {"x": 1}], [1, b"\x01\x02\x03\x04", 4100]]]}
    for body in ([10, {"advs": [odd], "rings": [[T, []]]}], [8, {"mine": FILTER, "view": [[7, odd, FILTER]]}]):
        assert encode_message(decode_message(encode(body))) == encode(body)


def test_a_filter_is_signed_with_the_key_of_its_service() -> None:
    one = make_filter(BOB, 7, b"\x01" * 128)
    assert one.is_signed_by(BOB.public) and not one.is_signed_by(ALICE.public)
    assert one.signature == BOB.sign(b"upsycle interests 1" + encode([7, b"\x01" * 128]))
    for changed in (type(one)(8, one.bits, one.signature), type(one)(7, bytes(128), one.signature)):
        assert not changed.is_signed_by(BOB.public)


TAGS = st.binary(min_size=16, max_size=16)
AGES = st.integers(0, 255)
MINUTES = st.integers(0, (1 << 32) - 1)
ID = st.binary(min_size=32, max_size=32).map(MessageId)
INTERESTED = st.builds(Interested, AGES, st.sampled_from(ADVERTISEMENTS), st.sampled_from(FILTERS))
MEMBERS = st.lists(st.builds(Member, st.integers(0, 1), AGES), max_size=10).map(tuple)
RING_LISTS = st.lists(st.builds(Ring, TAGS, MEMBERS), min_size=1, max_size=16, unique_by=lambda one: one.t).map(tuple)
VIEWS = st.lists(INTERESTED, max_size=10).map(tuple)
VALUES: st.SearchStrategy[Message] = st.one_of(
    st.builds(AskInterests, st.sampled_from(FILTERS), VIEWS),
    st.builds(TellInterests, st.sampled_from(FILTERS), VIEWS),
    st.builds(AskRings, st.just(ADVERTISEMENTS[:2]), RING_LISTS),
    st.builds(TellRings, st.just(ADVERTISEMENTS[:2]), RING_LISTS),
    st.builds(Compare, TAGS, MINUTES, MINUTES, st.binary(min_size=1, max_size=80)),
    st.builds(Compared, TAGS, MINUTES, MINUTES, st.binary(min_size=1, max_size=80)),
    st.builds(AskGroups, TAGS, st.integers(0, 63), st.binary(min_size=1, max_size=80)),
    st.builds(TellGroups, TAGS, st.integers(0, 63), st.binary(min_size=1, max_size=80)),
    st.builds(AskSums, MINUTES, MINUTES, st.lists(st.builds(Sum, TAGS, TAGS), min_size=1, max_size=9).map(tuple)),
    st.builds(TellSums, MINUTES, st.lists(st.integers(0, 2), min_size=1, max_size=9).map(bytes)),
    st.builds(Have, TAGS, st.lists(ID, min_size=1, max_size=64).map(tuple)),
)


@given(VALUES)
def test_whatever_is_sent_is_read_back(value: Message) -> None:
    assert decode_message(encode_message(value)) == value


@given(st.binary(max_size=200), st.integers(4, 21))
def test_any_bytes_are_a_message_or_malformed(data: bytes, kind: int) -> None:
    for body in (data, bytes((0x82, kind)) + data):
        try:
            found = decode_message(body)
        except Malformed:
            continue
        assert encode_message(found) == body


@pytest.mark.parametrize(
    ("body", "cause"),
    (
        ([7, {"mine": FILTER}], "INTERESTS lacks view"),
        ([7, {"mine": FILTER, "view": [], "x": 1}], "INTERESTS has a key that is not known"),
        ([7, {"mine": FILTER, "view": [[0, ADVERTS[0], FILTER]] * 11}], "view has 11 items; 0 to 10 are allowed"),
        ([7, {"mine": FILTER, "view": [[0, ADVERTS[0]]]}], "an entry has 2 items"),
        ([7, {"mine": FILTER, "view": [[256, ADVERTS[0], FILTER]]}], "age is not an unsigned number up to 255"),
        ([7, {"mine": [0, bytes(127), FILTER[2]], "view": []}], "bits has 127 bytes instead of 128"),
        ([7, {"mine": [-1, bytes(128), FILTER[2]], "view": []}], "rev is not an unsigned number"),
        ([8, {"mine": [0, bytes(128), bytes(63)], "view": []}], "sig"),
        ([9, {"advs": [], "rings": []}], "rings has 0 items; 1 to 16 are allowed"),
        ([9, {"advs": [], "rings": [[bytes((n,)) * 16, []] for n in range(17)]}], "rings has 17 items"),
        ([9, {"advs": [], "rings": [[T, []], [T, []]]}], "a topic stands twice among the rings"),
        ([9, {"advs": ADVERTS[:1], "rings": [[T, [[1, 0]]]]}], "an index points beyond the advertisements"),
        ([9, {"advs": ADVERTS[:1], "rings": [[T, [[0, 0]] * 11]]}], "a ring has 11 items; 0 to 10 are allowed"),
        ([9, {"advs": ADVERTS[:1], "rings": [[T, [[0, 256]]]]}], "age is not an unsigned number up to 255"),
        ([10, {"advs": [ADVERTS[0]] * 65, "rings": [[T, []]]}], "advs has 65 items; 0 to 64 are allowed"),
        ([11, ASKED | {"m": b""}], "m has 0 bytes"),
        ([11, ASKED | {"hi": 1 << 32}], "hi is not an unsigned number"),
        ([11, ASKED | {"age": -1}], "age is not an unsigned number"),
        ([12, TOLD | {"t": T[:15]}], "t has 15 bytes instead of 16"),
        ([12, TOLD | {"m": bytes(60_001)}], "m has 60001 bytes"),
        ([12, TOLD | {"order": bytes(6_506)}], "order has 6506 bytes instead of 0 to 6505"),
        ([12, TOLD | {"old": 1 << 32}], "old is not an unsigned number"),
        ([12, ASKED], "COMPARED"),
        ([13, {"t": T, "ids": []}], "ids has 0 items; 1 to 64 are allowed"),
        ([13, {"t": T, "ids": [bytes(32)] * 65}], "ids has 65 items"),
        ([13, {"t": T, "ids": [bytes(31)]}], "an id has 31 bytes instead of 32"),
        ([6, {"n": FIRST, "to": T, "tags": [T] * 1025}], "tags has 1025 items"),
        ([19, {"i": 0, "lo": 0, "sums": b""}], "sums has 0 bytes"),
        ([19, {"i": 0, "lo": 0, "sums": bytes(33)}], "sums has 33 bytes, which are no rows of 32"),
        ([19, {"i": 0, "lo": 0, "sums": bytes(32 * 1025)}], "sums has"),
        ([19, {"i": 0, "lo": -1, "sums": bytes(32)}], "lo is not an unsigned number"),
        ([20, {"i": 0, "found": b""}], "found has 0 bytes"),
        ([20, {"i": 0, "found": b"\3"}], "found has a 3; 0 to 2 are known"),
        ([20, {"i": 1 << 32, "found": b"\0"}], "i is not an unsigned number"),
    ),
    ids=lambda value: repr(value)[:60],
)  # fmt: skip
def test_refused(body: Any, cause: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode_message(encode(body))
    assert str(caught.value).startswith(cause) or isinstance(caught.value, TooLarge)


@pytest.mark.parametrize("kind", (0, 1, 2, 3, 4, 14, 17, 24, 1 << 40))
def test_unknown_types_are_told_apart(kind: int) -> None:
    with pytest.raises(UnknownMessage, match=f"pubsub message type {kind} is unknown"):
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


def test_what_is_too_long_is_refused_before_it_is_decoded() -> None:
    for kind in range(5, 14):
        with pytest.raises(TooLarge, match=r"the limit is"):
            decode_message(bytes((0x82, kind)) + bytes(BODY_BYTES_MAX))


def test_items_are_counted_before_anything_is_built() -> None:
    wide = b"\x82\x09\xa1\x64advs\x99\xff\xff" + b"\x80" * (BODY_BYTES_MAX - 12)
    deep = b"\x82\x09" + b"\x81" * (BODY_BYTES_MAX - 2)
    for body in (wide, deep):
        with pytest.raises(TooLarge, match="it holds more than"):
            decode_message(body)


def test_the_longest_of_each_is_within_its_limits() -> None:
    many = tuple(Ring(bytes((n,)) * 16, (Member(1, 255),) * 10) for n in range(16))
    for value in (
        AskRings(ADVERTISEMENTS[1:2] * 64, many), TellInterests(FILTERS[1], VIEW * 5),
        Compare(T, 0, 1, bytes(60_000)), Have(T, IDS * 4), Met(FIRST, T, (T,) * 1024),
        Compared(T, 0, 1, bytes(52_000), bytes(6_505), 1), TellSums((1 << 32) - 1, bytes(1024)),
        AskSums((1 << 32) - 1, (1 << 32) - 1, (Sum(T, T),) * 1024),
    ):  # fmt: skip
        assert decode_message(encode_message(value)) == value


def test_our_own_mistakes_are_found_before_they_are_sent() -> None:
    wrong: tuple[Message, ...] = (
        Have(T, ()), AskRings((), ()), AskRings((), (Ring(T, (Member(0, 0),)),)), Compare(T, 0, 1, b""), Meet(b""),
    )  # fmt: skip
    for one in wrong:
        with pytest.raises(ValueError, match=r".+"):
            encode_message(one)


def test_the_reasons_of_the_service() -> None:
    found = {int(one): one for one in vars(reasons).values() if isinstance(one, Reason)}
    assert {number: reason.word for number, reason in found.items()} == {
        224: "pubsub:not-shared", 225: "pubsub:unanswered", 226: "pubsub:limit",
        227: "pubsub:not-compared", 230: "pubsub:not-taken", 231: "pubsub:gone", 232: "pubsub:meet-first",
        233: "pubsub:withholds", 234: "pubsub:not-agreed",
    }  # fmt: skip
    assert all(reason_from(number) is reason and reason.sentence.endswith(".") for number, reason in found.items())
    assert {number for number, reason in found.items() if reason.later} == {224, 226}
    load_reasons("services.pubsub")  # it checks their range


def test_the_folder_is_a_service() -> None:
    assert load("services.pubsub").folder == "pubsub"
