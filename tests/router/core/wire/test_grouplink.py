"""Group links: round trips, secrets kept out of errors, and every kind of damaged text."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.core import ADDRESSES, ALICE, BOB, CONTENT_KEY, GROUP, LINKS

from router.core.wire.address import NamedAddress
from router.core.wire.codec import encode
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import CHECK_DIGITS, GroupLink, new_group, parse_link
from router.core.wire.hint import HINTS_MAX, Hint
from router.core.wire.link_text import LINK_CHARACTERS_MAX
from router.core.wire.text import BadText

FULL, READ_ONLY, HINTED = LINKS
KEY = bytes(BOB.public)
FIELDS = {"grp": bytes(GROUP.public), "key": CONTENT_KEY}


def link_text(value: Any) -> str:
    return "upsycle:" + urlsafe_b64encode(encode(value)).rstrip(b"=").decode()


SECRETS = st.binary(min_size=32, max_size=32)


@given(SECRETS, SECRETS, st.none() | st.text(max_size=80), st.booleans())
def test_round_trip(seed: bytes, content_key: bytes, name: str | None, may_send: bool) -> None:
    link = new_group(seed, content_key, name)
    link = link if may_send else link.read_only()
    assert parse_link(link.text()) == link
    assert len(link.text()) <= LINK_CHARACTERS_MAX


def test_exact_text() -> None:
    assert READ_ONLY.text() == link_text([2, FIELDS])
    assert FULL.text() == link_text([2, FIELDS | {"name": "bread & roses", "seed": GROUP.seed}])
    assert parse_link(f"  {FULL.text()}\n") == FULL
    assert parse_link(FULL.text().replace("upsycle:", "UPSYCLE:")) == FULL


def test_a_read_only_link_has_no_seed() -> None:
    read_only = FULL.read_only()
    assert read_only.seed is None and read_only.group == FULL.group and read_only.name == FULL.name
    assert len(read_only.text()) < len(FULL.text())
    assert FULL.seed is not None and SigningKey(FULL.seed).public == FULL.group


def test_names_are_cleaned_and_bounded() -> None:
    assert new_group(GROUP.seed, CONTENT_KEY, "a\x1bb" + "x" * 100).name == "ab" + "x" * 62
    assert new_group(GROUP.seed, CONTENT_KEY, " \n").name is None
    assert parse_link(link_text([2, FIELDS | {"name": "a\x1bb"}])).name == "ab"


def test_reprs_hide_secrets() -> None:
    assert repr(FULL).startswith('<group "bread & roses" group1') and repr(FULL).endswith("…, may send>")
    assert repr(READ_ONLY).endswith("…, read only>")
    for secret in (CONTENT_KEY, GROUP.seed):
        assert secret.hex() not in repr(FULL) and repr(secret)[2:-1] not in repr(FULL)


def test_the_check_is_of_the_group_and_what_opens_it() -> None:
    assert FULL.check == READ_ONLY.check == replace(FULL, name="x", hints=()).check and len(FULL.check) == CHECK_DIGITS
    other = bytes([FULL.content_key[0] ^ 1]) + FULL.content_key[1:]
    assert replace(FULL, content_key=other).check != FULL.check
    assert new_group(b"s" * 32, FULL.content_key).check != new_group(b"t" * 32, FULL.content_key).check


def test_hints_name_routers_that_serve_the_group() -> None:
    assert HINTED.hints == (Hint(ALICE.public, ADDRESSES[:1]), Hint(BOB.public, ADDRESSES[1:3]))
    assert HINTED.read_only().hints == HINTED.hints and len(HINTED.text()) <= LINK_CHARACTERS_MAX
    key = bytes(ALICE.public)
    at = [[key, [1, bytes([1, 1, 1, 1]), 1]], [key, [5, [[3, "a.org", 2], [4, "wss://a.org"]]]]]
    assert parse_link(link_text([2, FIELDS | {"at": at}])).text() == link_text([2, FIELDS | {"at": at}])


def test_a_hint_without_a_known_address_is_left_out() -> None:
    at = [[bytes(BOB.public), [9, "pigeon"]], [bytes(ALICE.public), ADDRESSES[0].encoded()]]
    assert parse_link(link_text([2, FIELDS | {"at": at}])).hints == (Hint(ALICE.public, ADDRESSES[:1]),)


def test_a_link_that_hints_make_too_long_is_refused_with_what_to_leave_out() -> None:
    long = replace(FULL, hints=(Hint(ALICE.public, (NamedAddress("x" * 60 + ".example.org", 1),) * 4),))
    with pytest.raises(BadText) as caught:
        long.text()
    assert str(caught.value) == (
        "The link would have 658 characters, and 512 are the most: leave out addresses of the routers that serve the "
        "group."
    )


@pytest.mark.parametrize(
    ("value", "cause"),
    (
        ([2, []], "it is not a map"),
        ([2, {"grp": FIELDS["grp"]}], "it lacks key"),
        ([2, FIELDS | {"key": b"short"}], "key has 5 bytes instead of 32"),
        ([2, FIELDS | {"grp": bytes(32)}], "grp is not a valid Ed25519 public key"),
        ([2, FIELDS | {"seed": b"short"}], "seed has 5 bytes instead of 32"),
        ([2, FIELDS | {"seed": BOB.seed}], "the sending seed does not fit the group's key"),
        ([2, FIELDS | {"name": "x" * 65}], "name is longer than 64 bytes"),
        ([2, FIELDS | {"name": None}], "name is not a text"),
        ([2, FIELDS | {"grants": []}], "it has a key that is not known"),
        ([2, FIELDS | {"at": []}], "at has 0 items; 1 to 2 are allowed"),
        ([2, FIELDS | {"at": [[bytes(32), [1, bytes(4), 1]]]}], "at is not a valid Ed25519 public key"),
        ([2, FIELDS | {"at": [[KEY, [1, bytes(4), 0]]]}], "the port of at is 0; ports go from 1 to 65535"),
    ),
)  # fmt: skip
def test_errors(value: Any, cause: str) -> None:
    text = link_text(value)
    with pytest.raises(BadText) as caught:
        parse_link(text)
    said = str(caught.value)
    assert said == (
        f"This is not a group link: it is damaged, letters of it are changed ({cause}). "
        "Copy the whole link again, from upsycle: to its last letter."
    )
    assert CONTENT_KEY.hex() not in said and (len(text) < 40 or text[20:40] not in said)


@given(st.text(max_size=60), st.booleans())
def test_any_text_gives_a_link_or_bad_text(text: str, with_scheme: bool) -> None:
    with pytest.raises(BadText):
        parse_link("upsycle:" + text if with_scheme else text)


def test_links_are_made_of_fitting_parts_only() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        GroupLink(GROUP.public, CONTENT_KEY, BOB.seed)
    with pytest.raises(ValueError, match="a content key has 32 bytes, not 0"):
        GroupLink(GROUP.public, b"")
    with pytest.raises(ValueError, match=f"at most {HINTS_MAX} routers, not 3"):
        replace(FULL, hints=(Hint(BOB.public, ADDRESSES[:1]),) * 3)
