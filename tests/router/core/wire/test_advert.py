"""Advertisements: exact bytes, signatures, closed maps, limits, which one replaces which, and their times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ADDRESSES, ADVERTISEMENTS, ALICE, BOB, EXPIRY_MIN, GROUP, value_of

from router.core.wire.address import NamedAddress
from router.core.wire.advert import (
    ADVERTISEMENT_BYTES_MAX,
    DATAGRAM_BYTES_MAX,
    DATAGRAM_GROUPS_MAX,
    EXPIRY_S,
    GROUPS_MAX,
    TTL_S,
    Advertisement,
    Succession,
    decode_advertisement,
    decode_datagram,
    make_advertisement,
    refusal_of,
    succession,
)
from router.core.wire.codec import Malformed, TooLarge, encode
from router.core.wire.crypto import SigningKey, verify
from router.core.wire.lifetime import expiry_min, expiry_s
from router.core.wire.reasons import ADVERT_STALE, Reason

PLAIN, FULL = ADVERTISEMENTS
FIELDS: dict[str, Any] = {
    "id": bytes(ALICE.public), "addr": ADDRESSES[0].encoded(), "svcs": {}, "grps": [], "rev": 1_790_000_000_000,
    "ttl": 86_400, "exp": EXPIRY_MIN,
}  # fmt: skip
NOW_S = 1_790_000_040  # a whole minute
DAY_S = 86_400


def signed(fields: dict[str, Any], key: SigningKey = ALICE) -> bytes:
    return encode([1, fields | {"sig": key.sign(b"\x01" + encode(fields))}])


@pytest.mark.parametrize("advertisement", ADVERTISEMENTS)
def test_round_trip(advertisement: Advertisement) -> None:
    found = decode_advertisement(advertisement.message)
    assert found == advertisement and found.verify() and hash(found) == hash(advertisement)


def test_exact_bytes() -> None:
    assert PLAIN.message == signed(FIELDS)
    assert encode(FIELDS)[:1] == b"\xa7" and encode({"sn": [], "exp": 0, "grp": b"", "ttl": 0})[:1] == b"\xa4"
    assert verify(ALICE.public, b"\x01" + encode(FIELDS), PLAIN.signature)
    full = {
        "id": bytes(BOB.public), "addr": [5, [one.encoded() for one in ADDRESSES[:3]]], "rev": 0, "ttl": 0, "exp": 0,
        "svcs": {1: bytes(ALICE.public), 2: bytes(GROUP.public)}, "grps": [bytes(GROUP.public)],
    }  # fmt: skip
    assert FULL.message == signed(full, BOB)


def test_what_an_advertisement_says() -> None:
    assert (FULL.router, FULL.addresses, FULL.groups) == (BOB.public, ADDRESSES[:3], (GROUP.public,))
    assert FULL.services == {"discovery": ALICE.public, "pubsub": GROUP.public}
    assert FULL.is_farewell and not PLAIN.is_farewell
    assert "sig" not in repr(FULL) and len(repr(FULL)) < 500


KEYS = st.sampled_from((ALICE, BOB, GROUP))
UINT32 = st.integers(0, (1 << 32) - 1)


@given(KEYS, st.integers(0, (1 << 64) - 1), UINT32, UINT32, st.sets(st.sampled_from(ADDRESSES), min_size=1))
def test_whatever_is_made_is_read_back(key: SigningKey, rev: int, ttl_s: int, expiry: int, at: set[Any]) -> None:
    made = make_advertisement(key, at, rev=rev, ttl_s=ttl_s, expiry_min=expiry)
    found = decode_advertisement(made.message)
    assert found == made and found.verify() and set(found.addresses) == at


@pytest.mark.parametrize(
    ("change", "cause"),
    (
        ({"zz": 1}, "an advertisement has a key that is not known"),
        ({"id": bytes(31)}, "id has 31 bytes instead of 32"),
        ({"addr": []}, "addr is not an address"),
        ({"addr": [1, b"\x01\x01\x01\x01", 0]}, "the port of addr is 0; ports go from 1 to 65535"),
        ({"svcs": []}, "svcs is not a map of services that are known"),
        ({"svcs": {0: bytes(32)}}, "svcs is not a map of services that are known"),
        ({"svcs": {3: bytes(32)}}, "svcs is not a map of services that are known"),
        ({"svcs": {"1": bytes(32)}}, "svcs is not a map of services that are known"),
        ({"svcs": {1: bytes(33)}}, "a service has 33 bytes instead of 32"),
        ({"grps": {}}, "grps is not an array"),
        ({"grps": [bytes(31)]}, "a group has 31 bytes instead of 32"),
        ({"grps": [bytes(32)] * 65}, "grps has 65 items; 0 to 64 are allowed"),
        ({"grps": [[bytes(32)]]}, "a group is not a byte string"),
        ({"rev": -1}, "rev is not an unsigned number"),
        ({"ttl": 1 << 32}, "ttl is not an unsigned number up to 4294967295"),
        ({"exp": 1 << 32}, "exp is not an unsigned number up to 4294967295"),
        ({"exp": True}, "exp is not an unsigned number up to 4294967295"),
    ),
)  # fmt: skip
def test_malformed(change: dict[str, Any], cause: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode_advertisement(signed(FIELDS | change))
    assert str(caught.value).startswith(cause)


@pytest.mark.parametrize("lost", [*FIELDS, "sig"])
def test_a_key_that_is_missing_is_named(lost: str) -> None:
    fields = {name: value for name, value in value_of(PLAIN.wire).items() if name != lost}
    with pytest.raises(Malformed, match=f"an advertisement lacks {lost}"):
        decode_advertisement(encode([1, fields]))


@pytest.mark.parametrize(
    "message",
    (
        b"", b"\x82", b"\x82\x02" + PLAIN.wire, PLAIN.wire, b"\x83\x01" + PLAIN.wire + b"\x00", PLAIN.message + b"\x00",
        b"\x82\x18\x01" + PLAIN.wire, b"\x82\x01" + PLAIN.wire[:1] + PLAIN.wire[36:] + PLAIN.wire[1:36],
    ),
)  # fmt: skip
def test_other_bytes_are_not_an_advertisement(message: bytes) -> None:
    with pytest.raises(Malformed):
        decode_advertisement(message)


def test_unsigned_and_wrongly_signed_advertisements_do_not_verify() -> None:
    fields = FIELDS | {"sig": BOB.sign(b"\x01" + encode(FIELDS))}
    unlabelled = FIELDS | {"sig": ALICE.sign(encode(FIELDS))}
    small_order = FIELDS | {"id": bytes(32), "sig": bytes(64)}
    for one in (fields, unlabelled, small_order):
        assert not decode_advertisement(encode([1, one])).verify()


@pytest.mark.parametrize("change", ({"svcs": {2: bytes(32)}}, {"grps": [bytes(GROUP.public), b"\xff" * 32]}))
def test_keys_that_are_no_points_do_not_verify(change: dict[str, Any]) -> None:
    found = decode_advertisement(signed(FIELDS | change))
    assert not found.verify()


def test_an_unknown_kind_of_address_is_ignored_and_the_bytes_are_kept() -> None:
    message = signed(FIELDS | {"addr": [5, [[7, {"x": [1]}], ADDRESSES[0].encoded()]]})
    found = decode_advertisement(message)
    assert found.addresses == ADDRESSES[:1] and found.message == message and found.verify()
    nowhere = decode_advertisement(signed(FIELDS | {"addr": [2, bytes(4), 1]}))
    assert nowhere.addresses == () and nowhere.verify()


@pytest.mark.parametrize("advertisement", ADVERTISEMENTS)
def test_cut_or_changed_anywhere_it_is_refused(advertisement: Advertisement) -> None:
    whole = advertisement.message
    for end in range(len(whole)):
        with pytest.raises(Malformed):
            decode_datagram(whole[:end])
    for at in range(len(whole)):
        for bits in (0x01, 0x80, 0xFF):
            changed = whole[:at] + bytes((whole[at] ^ bits,)) + whole[at + 1 :]
            try:
                found = decode_datagram(changed)
            except Malformed as error:
                assert str(error)
            else:
                assert found.message == changed and not found.verify()


# -- limits ------------------------------------------------------------------------------------------------

POINTS = tuple(SigningKey(bytes((n, 9)) * 16).public for n in range(GROUPS_MAX + 1))
LONGEST: dict[str, Any] = {"rev": (1 << 64) - 1, "expiry_min": (1 << 32) - 1, "ttl_s": 1 << 31}


def test_26_groups_fit_a_datagram_and_27_do_not() -> None:
    services = {"discovery": ALICE.public, "pubsub": BOB.public}
    most = make_advertisement(ALICE, ADDRESSES[1:2], services=services, groups=POINTS[:26], **LONGEST)
    assert decode_datagram(most.message) == most and most.verify()
    assert len(most.message) <= DATAGRAM_BYTES_MAX
    one_more = make_advertisement(ALICE, ADDRESSES[1:2], groups=POINTS[:27], **LONGEST)
    with pytest.raises(TooLarge, match=f"a datagram names 27 groups; the limit is {DATAGRAM_GROUPS_MAX}"):
        decode_datagram(one_more.message)
    assert decode_advertisement(one_more.message) == one_more


def test_what_is_too_large_is_refused_unread() -> None:
    with pytest.raises(TooLarge, match="an advertisement of 1201 bytes; the limit is 1200"):
        decode_datagram(PLAIN.message + bytes(1201 - len(PLAIN.message)))
    with pytest.raises(TooLarge, match="an advertisement of 4097 bytes; the limit is 4096"):
        decode_advertisement(bytes(4097))
    with pytest.raises(TooLarge, match="it holds more than"):
        decode_advertisement(encode([1, {"id": [[]] * 300}]))


def test_all_that_it_may_hold_fits() -> None:
    longest = NamedAddress("x" * 60 + ".example.org", 65_535)
    most = make_advertisement(ALICE, [longest] * 8, groups=POINTS[:GROUPS_MAX], **LONGEST)
    assert len(most.message) <= ADVERTISEMENT_BYTES_MAX and most.verify()


def test_our_own_mistakes_are_found_before_they_are_sent() -> None:
    with pytest.raises(ValueError, match="grps has 65 items"):
        make_advertisement(ALICE, ADDRESSES[:1], groups=POINTS, rev=1, expiry_min=1)
    with pytest.raises(ValueError, match="1 to 8 addresses are named, not 0"):
        make_advertisement(ALICE, [], rev=1, expiry_min=1)


# -- which one counts --------------------------------------------------------------------------------------


def advert(rev: int, *, ttl_s: int = TTL_S, left_s: float = EXPIRY_S) -> Advertisement:
    return make_advertisement(ALICE, ADDRESSES[:1], rev=rev, ttl_s=ttl_s, expiry_min=expiry_min(NOW_S + left_s))


@pytest.mark.parametrize(
    ("heard", "known", "expected"),
    (
        (advert(5), None, Succession.NEWER),
        (advert(5), advert(4), Succession.NEWER),
        (advert(5), advert(5), Succession.SAME),
        (advert(5), advert(5, ttl_s=1), Succession.CONFLICTING),
        (advert(4), advert(5), Succession.OLDER),
    ),
)
def test_only_a_greater_revision_replaces(
    heard: Advertisement, known: Advertisement | None, expected: Succession
) -> None:
    assert succession(heard, known) is expected
    refused = refusal_of(heard, known, NOW_S, 7 * DAY_S)
    counts = expected in (Succession.NEWER, Succession.SAME)
    assert refused == (None if counts else (ADVERT_STALE, expected.value))
    assert (int(ADVERT_STALE), ADVERT_STALE.word) == (200, "advert:stale")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=12))
def test_any_order_of_arrival_ends_with_the_greatest_revision(heard: list[tuple[int, int]]) -> None:
    known: Advertisement | None = None
    for rev, ttl_s in heard:
        one = advert(rev, ttl_s=ttl_s)
        known = one if succession(one, known) is Succession.NEWER else known
    assert (known.rev if known else None) == max((rev for rev, _ in heard), default=None)


@pytest.mark.parametrize(
    ("left_s", "reason", "said"),
    (
        (0, Reason.EXPIRY_PASSED, "the advertisement has expired, or a clock is wrong: that router's or this node's"),
        (-DAY_S, Reason.EXPIRY_PASSED, "the advertisement has expired"),
        (8 * DAY_S, Reason.EXPIRY_TOO_FAR, "the advertisement expires in 8.0 days; 7.0 are the most, so a clock is"),
        (80 * 365 * DAY_S, Reason.EXPIRY_TOO_FAR, "the advertisement expires in 29200.0 days"),
    ),
)
def test_times_that_cannot_be(left_s: float, reason: Reason, said: str) -> None:
    found, text = refusal_of(advert(1, left_s=left_s), None, NOW_S, 7 * DAY_S) or (None, "")
    assert found is reason and text.startswith(said)


def test_the_sooner_of_ttl_and_expiry_ends_it() -> None:
    assert advert(1).deadline_s(NOW_S) == NOW_S + TTL_S
    assert advert(1, ttl_s=1 << 31).deadline_s(NOW_S) == NOW_S + TTL_S
    assert advert(1, left_s=60).deadline_s(NOW_S) == expiry_s(expiry_min(NOW_S + 60))
    assert advert(1, ttl_s=0).deadline_s(NOW_S) == NOW_S
    assert advert(1, ttl_s=30).deadline_s(NOW_S) == NOW_S + 30
