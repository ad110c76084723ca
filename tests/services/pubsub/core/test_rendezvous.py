"""Points of rendezvous by value: days, records, words, what is kept, who is known, whom a search asks."""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from random import Random

import blake3 as blake
import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ADVERTISEMENTS, GROUP

from router.core.wire.address import IpAddress, NamedAddress
from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import PublicKey
from router.core.wire.forms import UnknownMessage
from router.core.wire.hint import Hint
from services.pubsub.core.rendezvous.answers import AnswerLimits, PointAnswers
from services.pubsub.core.rendezvous.contacts import ContactLimits, Contacts
from services.pubsub.core.rendezvous.points import (
    DAY_S,
    OVERLAP_S,
    PLACE_BYTES,
    Contact,
    contact_of,
    day_of,
    days_to_leave,
    place_of,
    point_of,
)
from services.pubsub.core.rendezvous.records import AGE_MAX_S, RECORD_BYTES, Opened, Unread, open_record, seal_record
from services.pubsub.core.rendezvous.search import Search, SearchLimits
from services.pubsub.core.rendezvous.store import NotKept, RecordStore, StoreLimits
from services.pubsub.core.rendezvous.words import (
    BUT_MAX,
    NEAR_MAX,
    TOLD_MAX,
    AskPoint,
    TellPoint,
    decode_point_word,
    encode_point_word,
)

WALL_S = 1_800_000_000.0
OTHER_GROUP = ADVERTISEMENTS[1].router
DAY = day_of(GROUP.public, WALL_S)
HINTS = (Hint(ADVERTISEMENTS[0].router, (IpAddress(IPv4Address("198.51.100.7"), 4101),)),)
NONCE = bytes(range(24))
POINT = bytes(32)


def contact(place: int, prefix: bytes | None = None) -> Contact:
    return contact_of(PublicKey(place.to_bytes(PLACE_BYTES, "big") + bytes(24)), prefix)


def sealed(hints: tuple[Hint, ...] = HINTS, wall_s: float = WALL_S) -> bytes:
    return seal_record(GROUP.public, DAY, hints, wall_s, NONCE)


# -- points and days --------------------------------------------------------------------------------------------------


def test_point_is_a_hash_of_group_and_day() -> None:
    text = b"upsycle rendezvous 1" + GROUP.public + (7).to_bytes(4, "big")
    assert point_of(GROUP.public, 7) == blake.blake3(text).digest()
    assert place_of(b"\0" * 7 + b"\x02" + b"\xff" * 24) == 2


@given(st.binary(min_size=32, max_size=32), st.integers(0, 4_000_000_000))
def test_days_follow_each_other_and_the_next_is_left_for_an_hour_ahead(key: bytes, wall_s: int) -> None:
    group = PublicKey(key)
    today = day_of(group, wall_s)
    assert day_of(group, wall_s + DAY_S) == today + 1
    days = days_to_leave(group, wall_s)
    assert days[0] == today and days == ((today,) if day_of(group, wall_s + OVERLAP_S) == today else (today, today + 1))


def test_groups_do_not_all_change_their_points_at_once() -> None:
    turns = {next(at for at in range(0, DAY_S, 60) if day_of(PublicKey(bytes((one,)) * 32), WALL_S + at) !=
                  day_of(PublicKey(bytes((one,)) * 32), WALL_S)) for one in range(20)}  # fmt: skip
    assert len(turns) > 15


# -- records ----------------------------------------------------------------------------------------------------------


def test_record_is_opened_by_who_knows_the_group_and_by_nobody_else() -> None:
    record = sealed()
    assert len(record) == RECORD_BYTES == len(sealed(2 * HINTS))
    assert open_record(GROUP.public, DAY, record, WALL_S) == Opened(HINTS, int(WALL_S) // 60)
    assert open_record(OTHER_GROUP, DAY, record, WALL_S) is Unread.FORGED
    assert open_record(GROUP.public, DAY + 1, record, WALL_S) is Unread.FORGED
    assert record.find(HINTS[0].router) == record.find(GROUP.public) == -1


@given(st.integers(0, 8 * RECORD_BYTES - 1))
def test_record_with_a_changed_bit_is_forged(bit: int) -> None:
    changed = bytearray(sealed())
    changed[bit // 8] ^= 1 << bit % 8
    assert open_record(GROUP.public, DAY, bytes(changed), WALL_S) is Unread.FORGED
    assert open_record(GROUP.public, DAY, bytes(changed[: bit // 8]), WALL_S) is Unread.FORGED


def test_record_that_is_old_or_from_the_future_is_not_used() -> None:
    assert open_record(GROUP.public, DAY, sealed(), WALL_S + AGE_MAX_S) is Unread.OLD
    assert open_record(GROUP.public, DAY, sealed(), WALL_S - OVERLAP_S - 60) is Unread.AHEAD
    assert isinstance(open_record(GROUP.public, DAY, sealed(), WALL_S - OVERLAP_S), Opened)


def test_record_leaves_out_what_does_not_fit() -> None:
    long = NamedAddress("a." * 60 + "example.org", 4101)
    opened = open_record(GROUP.public, DAY, sealed((*HINTS, Hint(OTHER_GROUP, (*HINTS[0].addresses, long)))), WALL_S)
    assert isinstance(opened, Opened)
    assert opened.hints == (*HINTS, Hint(OTHER_GROUP, HINTS[0].addresses))
    with pytest.raises(ValueError, match="name one with a shorter address"):
        sealed((Hint(OTHER_GROUP, (NamedAddress("a." * 110 + "example.org", 1),)),))
    with pytest.raises(ValueError, match="24 bytes, not 3"):
        seal_record(GROUP.public, DAY, HINTS, WALL_S, b"abc")


# -- words ------------------------------------------------------------------------------------------------------------

WORDS: tuple[AskPoint | TellPoint, ...] = (
    AskPoint(POINT),
    AskPoint(POINT, (b"12345678",) * BUT_MAX, sealed(), ADVERTISEMENTS[0]),
    TellPoint(POINT, False, (), ()),
    TellPoint(POINT, True, (ADVERTISEMENTS[0],) * NEAR_MAX, (sealed(),) * TOLD_MAX),
)


@cache
def grammar() -> Validator:
    return Validator(Path(__file__).parents[4] / "cddl" / "rendezvous.cddl")


@pytest.mark.parametrize("word", WORDS)
def test_word_comes_back_and_has_the_form_of_the_grammar(word: AskPoint | TellPoint) -> None:
    body = encode_point_word(word)
    assert decode_point_word(body) == word
    assert body == encode(cbor2.loads(body))
    assert grammar().validate(body, "word").valid


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([17, {"p": POINT}], "lacks but"),
        ([17, {"p": POINT, "but": bytes(7)}], "but has 7 bytes"),
        ([17, {"p": POINT, "but": bytes(PLACE_BYTES * (BUT_MAX + 1))}], "but has 104 bytes"),
        ([17, {"p": bytes(31), "but": b""}], "p has 31 bytes"),
        ([17, {"p": POINT, "but": b"", "rec": bytes(RECORD_BYTES - 1)}], "rec has 183 bytes"),
        ([17, {"p": POINT, "but": b"", "who": 1}], "a key that is not known"),
        ([18, {"p": POINT, "kept": 1, "near": [], "recs": []}], "kept is neither true nor false"),
        ([18, {"p": POINT, "kept": True, "near": [], "recs": [bytes(RECORD_BYTES)] * 5}], "recs has 5 items"),
        ([18, {"p": POINT, "kept": True, "near": [{}], "recs": []}], "an advertisement lacks id"),
    ],
)
def test_word_of_another_form_is_refused(value: object, text: str) -> None:
    with pytest.raises(Malformed, match=text):
        decode_point_word(encode(value))


def test_word_of_another_type_or_size_is_refused() -> None:
    with pytest.raises(UnknownMessage):
        decode_point_word(encode([16, {}]))
    with pytest.raises(Malformed, match="the limit is"):
        decode_point_word(encode([17, {"p": bytes(9_000), "but": b""}]))
    with pytest.raises(ValueError, match="rec has 1 bytes"):
        encode_point_word(AskPoint(POINT, record=b"1"))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_word_or_malformed(body: bytes) -> None:
    try:
        word = decode_point_word(body)
    except Malformed:
        return
    assert encode_point_word(word) == body


# -- what is kept -----------------------------------------------------------------------------------------------------


def store(**limits: float) -> RecordStore:
    return RecordStore(b"secret", Random(1), StoreLimits(**limits))  # type: ignore[arg-type]


def test_store_keeps_one_record_of_each_router_and_tells_it_to_others() -> None:
    here, one, other = store(), contact(1), contact(2)
    assert here.put(POINT, sealed(), one, 0, 0.0) is None
    assert here.put(POINT, b"\1" * RECORD_BYTES, one, 0, 0.0) is None
    assert (len(here), here.told(POINT, 0.0), here.told(POINT, 0.0, but=one.router)) == (
        1, (b"\1" * RECORD_BYTES,), ()
    )  # fmt: skip
    assert here.put(POINT, b"short", one, 0, 0.0) is NotKept.FORM
    assert here.put(POINT, sealed(), other, StoreLimits().nearer_max, 0.0) is NotKept.FAR
    assert here.told(POINT, 0.0) == (b"\1" * RECORD_BYTES,)  # what was there stays


def test_store_forgets_after_a_time() -> None:
    here = store(keep_s=10)
    here.put(POINT, sealed(), contact(1), 0, 0.0)
    here.put(POINT, sealed(), contact(2), 0, 5.0)
    here.put(POINT, sealed(), contact(1), 0, 6.0)  # left again
    assert len(here.told(POINT, 14.9)) == 2
    assert len(here.told(POINT, 15.0)) == 1
    assert here.told(POINT, 16.0) == () and len(here) == 0
    assert repr(here) == "<0 records of 0 points>"


def test_store_has_shares_by_router_network_and_in_all() -> None:
    points = [bytes((one,)) * 32 for one in range(9)]
    here = store(records_max=4, of_router_max=2, of_prefix_max=3, of_prefix_at_point_max=2)
    put = [here.put(point, sealed(), contact(1, b"net"), 0, 0.0) for point in points[:3]]
    assert put == [None, None, NotKept.ROUTER]
    assert here.put(points[0], sealed(), contact(2, b"net"), 0, 0.0) is None
    assert here.put(points[0], sealed(), contact(3, b"net"), 0, 0.0) is NotKept.PREFIX  # the point's
    assert here.put(points[5], sealed(), contact(4, b"net"), 0, 0.0) is NotKept.PREFIX  # of all
    assert here.put(points[5], sealed(), contact(5), 0, 0.0) is None
    assert here.put(points[6], sealed(), contact(6), 0, 0.0) is NotKept.FULL
    assert here.put(points[5], sealed(), contact(5), 0, 0.0) is None  # its own place
    assert len(here) == 4


def test_store_of_a_flooded_point_keeps_a_share_of_each_side() -> None:
    here = store(of_point_max=16)

    def put(number: int) -> NotKept | None:
        return here.put(POINT, bytes((number,)) * RECORD_BYTES, contact(1 + number), 0, 0.0)

    def left() -> set[int]:
        return {record[0] for _ in range(200) for record in here.told(POINT, 0.0)}

    assert [put(number) for number in range(16)] == [None] * 16 and left() == set(range(16))
    assert {put(number) for number in range(100, 116)} == {None, NotKept.POINT}
    held = left()
    assert len(held) == 16 and 4 <= sum(number < 100 for number in held) <= 12
    for number in range(100, 116):  # insisting gains nothing
        put(number)
    assert left() == held


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12), st.integers(0, 3)), max_size=60))
def test_store_is_within_its_limits_whatever_is_left(puts: list[tuple[int, int, int]]) -> None:
    here = store(records_max=9, of_point_max=4, of_router_max=2, of_prefix_max=5, of_prefix_at_point_max=2, keep_s=20)
    for at, (point, router, prefix) in enumerate(puts):
        here.put(bytes((point,)) * 32, sealed(), contact(router, bytes((prefix,))), 0, float(at))
        assert len(here) <= 9
        assert all(len(here.told(bytes((one,)) * 32, float(at))) <= TOLD_MAX for one in range(3))
    here.told(POINT, 1_000.0)
    assert len(here) == 0


# -- who is known -----------------------------------------------------------------------------------------------------


def test_contacts_know_all_that_are_near_and_some_far_away() -> None:
    known = Contacts(contact(0).router, ContactLimits(of_bucket_max=2, of_prefix_max=1))
    assert [known.hear(contact(place)) for place in (1, 2, 3, 4, 5, 6, 7)] == [True] * 5 + [False] * 2
    assert known.hear(contact(4)) and not known.hear(contact(0))
    assert [one.place for one in known.nearest(5, 3)] == [5, 4, 1]
    assert known.nearer(4) == 2 and known.nearer(1) == 1 and known.nearer(0) == 0
    known.forget(contact(4).router)
    assert known.hear(contact(6, b"net")) and len(known) == 5
    known.forget(contact(5).router)
    assert not known.hear(contact(7, b"net")) and known.hear(contact(7, b"other"))
    assert known.hear(contact(6, b"third")) and not known.hear(contact(6, b"other"))  # moved: judged anew


# -- answers ----------------------------------------------------------------------------------------------------------


def test_answers_tell_the_nearest_that_the_asker_does_not_know() -> None:
    known = Contacts(contact(1 << 60).router)
    for place in range(1, 9):
        known.hear(contact(place))
    adverts = {contact(place).router: ADVERTISEMENTS[0] for place in (1, 2, 3, 4, 5, 6)}
    asked = list[PublicKey]()
    answers = PointAnswers(known, store(), lambda key: asked.append(key) or adverts.get(key))  # type: ignore[func-returns-value]
    told = answers.answer(AskPoint(POINT, (contact(1).router[:8],)), contact(2), 0.0)
    assert told is not None and len(told.near) == NEAR_MAX
    assert [place_of(key) for key in asked] == [3, 4, 5, 6]
    asked.clear()
    full = tuple(contact(place).router[:8] for place in (*range(1, 4), *range(90, 99)))
    far = answers.answer(AskPoint((1 << 62).to_bytes(8, "big") + bytes(24), full), contact(20), 0.0)
    assert far is not None and [place_of(key) for key in asked] == [4, 5, 6, 7]
    asked.clear()
    near = tuple(contact(place).router[:8] for place in (1, 2, 3) * 4)
    assert answers.answer(AskPoint(POINT, near), contact(20), 0.0) == TellPoint(POINT, False, (), ())
    assert not asked  # nothing is nearer than what the asker knows


def test_answers_have_a_pace_for_each_router() -> None:
    answers = PointAnswers(Contacts(contact(1).router), store(), lambda key: None, AnswerLimits(1, 2, 2))
    told = [answers.answer(AskPoint(POINT), contact(2), 0.0) is not None for _ in range(3)]
    assert told == [True, True, False]
    assert answers.answer(AskPoint(POINT), contact(3), 0.0) is not None
    assert answers.answer(AskPoint(POINT), contact(2), 1.0) is not None


# -- a search ---------------------------------------------------------------------------------------------------------

FEW = SearchLimits(storers=3, at_once=2, asks_max=6, of_prefix_max=1, in_vain_max=2, known_max=8)


def places(search: Search) -> list[int]:
    return [place_of(key) for key in search.next_asks()]


def test_search_asks_the_nearest_until_they_have_answered() -> None:
    search = Search(POINT, contact(9).router, [contact(8), contact(16), contact(9)], FEW)
    assert (places(search), places(search), search.is_done) == ([8, 16], [], False)
    assert search.answer(contact(8).router, [contact(1), contact(2), contact(9)])
    assert not search.answer(contact(8).router, [contact(0)]) and not search.answer(contact(77).router, [])
    assert places(search) == [1]
    assert search.answer(contact(16).router, []) and places(search) == [2]
    search.answer(contact(1).router, [])
    search.answer(contact(2).router, [])
    assert search.is_done and [one.place for one in search.storers] == [1, 2, 8]
    assert search.but == tuple(contact(one).router[:8] for one in (1, 2, 8, 16))


def test_search_leaves_out_what_a_liar_invents() -> None:
    search = Search(POINT, contact(9).router, [contact(64), contact(65), contact(66)], FEW)
    assert places(search) == [64, 65]
    search.answer(contact(64).router, [contact(place) for place in (1, 2, 3, 4)])
    assert places(search) == [1]
    search.answer(contact(65).router, [contact(32)])
    assert places(search) == [2]
    for place in (1, 2):
        search.fail(contact(place).router)
    assert places(search) == [32]  # and neither 3 nor 4, which only the liar named
    search.fail(contact(99).router)
    search.answer(contact(32).router, [contact(5)])
    assert places(search) == [5] and search.asks == 6
    search.answer(contact(5).router, [contact(6)])
    assert search.is_done and places(search) == []  # six questions are the most
    assert [one.place for one in search.storers] == [5, 32, 64]


def test_search_asks_few_of_one_network_and_remembers_a_bounded_number() -> None:
    search = Search(POINT, contact(99).router, [contact(place, b"net") for place in range(1, 5)], FEW)
    assert places(search) == [1]
    search.answer(contact(1).router, [contact(place, b"net" if place < 7 else None) for place in (5, 6, 7, 8)])
    assert places(search) == [7, 8]
    assert repr(search) == "<search: 3 asked of 8 known>"


@given(st.data())
def test_search_ends_whatever_it_is_told(data: st.DataObject) -> None:
    chance = Random(data.draw(st.integers(0, 1 << 32)))
    networks = (None, b"one", b"two", b"three")
    search = Search(POINT, contact(0).router, [contact(place) for place in range(200, 205)], FEW)
    waiting = search.next_asks()
    asked = list(waiting)
    while waiting:
        router = waiting.pop(chance.randrange(len(waiting)))
        if chance.random() < 0.3:
            search.fail(router)
        else:
            search.answer(router, [contact(chance.randrange(200), chance.choice(networks)) for _ in range(4)])
        more = search.next_asks()
        waiting += more
        asked += more
        assert len(waiting) <= FEW.at_once
    assert search.is_done and len(set(asked)) == len(asked) == search.asks <= FEW.asks_max
    assert len(search.storers) <= FEW.storers
