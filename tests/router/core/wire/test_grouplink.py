"""Group links: round trips, secrets kept out of errors, and every kind of damaged text."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import BOB, CONTENT_KEY, GROUP, LINKS

from router.core.wire.codec import encode
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import LINK_CHARACTERS_MAX, GroupLink, new_group, parse_link
from router.core.wire.text import BadText

FULL, READ_ONLY = LINKS
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


@pytest.mark.parametrize(
    ("text", "cause"),
    (
        ("", "begins with neither"),
        ("https://example.org", "begins with neither"),
        (FULL.text()[8:], "begins with neither"),
        (FULL.text()[:-1], "letters are missing or changed"),
        (FULL.text() + "A", "letters are missing or changed"),
        (FULL.text() + "=", "letters are missing or changed"),
        (FULL.text()[:40] + "!" + FULL.text()[40:], "letters are missing or changed"),
        (FULL.text()[:40] + "ü" + FULL.text()[41:], "letters are missing or changed"),
        ("upsycle:", "letters are missing or changed"),
        ("upsycle:" + "A" * 600, f"it has 608 characters; {LINK_CHARACTERS_MAX} are the most"),
        (link_text([1, {}]), "an invitation to a node, for `router peer add`"),
        (link_text([3, FIELDS]), "of type 3, which this version does not know"),
        (link_text([True, FIELDS]), "its type is not an unsigned number"),
        (link_text([2]), "it has 1 items"),
        (link_text({}), "it is not an array"),
        (link_text([2, []]), "it is not a map"),
        (link_text([2, {"grp": FIELDS["grp"]}]), "it lacks key"),
        (link_text([2, FIELDS | {"key": b"short"}]), "key has 5 bytes instead of 32"),
        (link_text([2, FIELDS | {"grp": bytes(32)}]), "is not a valid Ed25519 public key"),
        (link_text([2, FIELDS | {"seed": b"short"}]), "seed has 5 bytes instead of 32"),
        (link_text([2, FIELDS | {"seed": BOB.seed}]), "the sending seed does not fit the group's key"),
        (link_text([2, FIELDS | {"name": "x" * 65}]), "name is longer than 64 bytes"),
        (link_text([2, FIELDS | {"name": None}]), "name is not a text"),
        (link_text([2, FIELDS | {"grants": []}]), "a key that is not known"),
    ),
)  # fmt: skip
def test_errors(text: str, cause: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_link(text)
    said = str(caught.value)
    assert cause in said and said.endswith("from upsycle: to its last letter.")
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
