"""A router's statement of its addresses: signed by its key, strictly read, of bounded size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ALICE, BOB

from router.core.wire.address import NamedAddress, parse_address
from router.core.wire.codec import Malformed, encode
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.whereabouts import (
    ASK_WHEREABOUTS,
    ASK_WHEREABOUTS_BYTES_MAX,
    PLACES_MAX,
    WHEREABOUTS,
    WHEREABOUTS_BYTES_MAX,
    AskWhereabouts,
    DatedAddress,
    decode_about_places,
    decode_whereabouts,
    encode_about_places,
    make_whereabouts,
)

OLD, NEW = (
    DatedAddress(parse_address(url), at) for url, at in (("tls://203.0.113.7:4101", 5), ("tls://new.example:4101", 9))
)
LONGEST = [
    DatedAddress(NamedAddress("a" * 63 + f".{number}" + ".b" * 94, 65_535), UINT32_MAX) for number in range(PLACES_MAX)
]
SAID = make_whereabouts(ALICE, [NEW, OLD], 7)
PLACES = st.lists(
    st.builds(
        lambda host, port, since_s: DatedAddress(NamedAddress(host, port), since_s),
        st.from_regex(r"[a-z]{1,63}\.[a-z]{1,63}", fullmatch=True),
        st.integers(1, 65_535),
        st.integers(0, UINT32_MAX),
    ),
    min_size=1,
    max_size=PLACES_MAX,
    unique_by=lambda one: one.address,
)


@given(places=PLACES, rev=st.integers(0, 2**64 - 1))
def test_what_a_router_signs_comes_back_as_it_was(places: list[DatedAddress], rev: int) -> None:
    made = make_whereabouts(ALICE, places, rev)
    found = decode_about_places(encode_about_places(made))
    assert found == made and made.verify() and list(made.places) == places and made.rev == rev


@given(at=st.integers(0, len(SAID.wire) - 1), bit=st.integers(0, 7))
def test_no_bit_of_it_can_be_changed(at: int, bit: int) -> None:
    raw = bytearray(SAID.wire)
    raw[at] ^= 1 << bit
    try:
        changed = decode_whereabouts(bytes(raw))
    except Malformed:
        return
    assert not changed.verify()


def test_the_longest_statement_and_question_fit_their_limits() -> None:
    assert len(make_whereabouts(ALICE, LONGEST, 2**64 - 1).wire) <= WHEREABOUTS_BYTES_MAX
    asked = encode_about_places(AskWhereabouts(BOB.public))
    assert len(asked) <= ASK_WHEREABOUTS_BYTES_MAX and decode_about_places(asked) == AskWhereabouts(BOB.public)


def _with(**more: Any) -> bytes:
    fields = {"id": ALICE.public, "at": [[9, [3, "new.example", 4101]]], "rev": 7, "sig": bytes(64)}
    return encode(fields | more)


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        (_with(at=[]), "at has 0 items"),
        (_with(at=[[one, [3, "new.example", 4101 + one]] for one in range(4)]), "more than 29 items"),
        (_with(at=[[9, [7, b"later"]]]), "kind that is not known"),
        (_with(at=[[9, [3, "new.example", 0]]]), "port"),
        (_with(at=[[2**32, [3, "new.example", 4101]]]), "since"),
        (_with(at=[[9, [5, [[3, "new.example", 4101]]]]]), "list of addresses"),
        (_with(rev=-1), "rev"),
        (_with(more=1), "key that is not known"),
        (_with(id=bytes(32)), "id"),
        (_with(at=[[9, [4, "wss://" + "a" * 1100]]]), "limit is 1024"),
        (b"", "ends|cut|empty|CBOR"),
    ],
)
def test_anything_else_is_malformed_with_the_cause(wire: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        decode_about_places(WHEREABOUTS + wire)


def test_a_question_of_another_form_is_malformed() -> None:
    for body in (ASK_WHEREABOUTS + encode({"id": bytes(31)}), ASK_WHEREABOUTS + bytes(65), b"\x82\x11\xa0"):
        with pytest.raises(Malformed):
            decode_about_places(body)
