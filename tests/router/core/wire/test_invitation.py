"""Invitations: exact bytes, signatures, closed maps, rights, and the limits of a link's length."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.core import ADDRESSES, ALICE, BOB, CONTENT_KEY, EXPIRY_MIN, GROUP, INVITATIONS, LINKS, RIGHTS, value_of

from router.core.wire.advert import make_advertisement
from router.core.wire.codec import encode
from router.core.wire.crypto import SigningKey, digest
from router.core.wire.grouplink import GroupLink
from router.core.wire.invitation import RIGHTS as BITS
from router.core.wire.invitation import (
    RIGHTS_ALL,
    Invitation,
    invitation_id,
    make_invitation,
    parse_peer_link,
    rights_in,
    rights_number,
)
from router.core.wire.lifetime import expiry_s
from router.core.wire.text import BadText

FIELDS: dict[str, Any] = {
    "id": bytes(ALICE.public), "at": ADDRESSES[0].encoded(), "inv": b"i" * 16, "exp": EXPIRY_MIN, "gr": 8,
}  # fmt: skip
LABEL = b"upsycle invitation 1"


def link_of(fields: dict[str, Any], key: SigningKey = ALICE, label: bytes = LABEL) -> str:
    signed = fields | {"sig": key.sign(label + encode(fields))} if "sig" not in fields else fields
    return "upsycle:" + urlsafe_b64encode(encode([3, signed])).rstrip(b"=").decode()


def parsed(text: str) -> Invitation:
    found = parse_peer_link(text)
    assert isinstance(found, Invitation)
    return found


@pytest.mark.parametrize("invitation", INVITATIONS, ids=repr)
def test_round_trip(invitation: Invitation) -> None:
    assert parsed(invitation.text()) == invitation


def test_exact_text() -> None:
    assert INVITATIONS[0].text() == link_of(FIELDS)
    group = {"key": CONTENT_KEY, "name": "bread & roses", "seed": GROUP.seed}
    more = {"inv": b"j" * 16, "exp": 0, "gr": 7, "name": "bakery", "grp": group}
    two = {"at": [5, [one.encoded() for one in ADDRESSES[:2]]]}
    assert INVITATIONS[1].text() == link_of(FIELDS | more | two)
    reader = {"key": CONTENT_KEY, "grp": bytes(GROUP.public)}
    last = {"inv": b"k" * 16, "gr": 7, "at": ADDRESSES[2].encoded(), "grp": reader}
    assert INVITATIONS[2].text() == link_of(FIELDS | last)


def test_what_an_invitation_says() -> None:
    full, reader = INVITATIONS[1:]
    assert (full.inviter, full.addresses, full.secret) == (ALICE.public, ADDRESSES[:2], b"j" * 16)
    assert (full.rights, full.name, full.group) == (RIGHTS, "bakery", LINKS[0])
    assert reader.group == GroupLink(GROUP.public, CONTENT_KEY)
    assert full.id == invitation_id(b"j" * 16) == digest(b"j" * 16)
    assert repr(full).startswith('<invitation "bakery" by addr1') and repr(full).endswith("…, join, store, relay>")
    assert full.has_expired(expiry_s(0)) and not full.has_expired(expiry_s(0) - 1)


@given(st.sets(st.sampled_from(sorted(BITS)), min_size=1))
def test_rights(rights: set[str]) -> None:
    number = rights_number(rights)
    assert 1 <= number <= RIGHTS_ALL and set(rights_in(number)) == rights


@pytest.mark.parametrize("rights", [(), ("admin",), ("join", "admin")])
def test_rights_that_cannot_be_offered(rights: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="one or more of join, store, relay, why, not"):
        rights_number(rights)


NAMES = st.none() | st.text(max_size=80)


@given(st.binary(min_size=16, max_size=16), st.integers(0, (1 << 32) - 1), NAMES, st.none() | st.booleans())
def test_whatever_is_made_is_read_back(secret: bytes, expiry_min: int, name: str | None, group: bool | None) -> None:
    link = None if group is None else LINKS[0] if group else LINKS[1]
    made = make_invitation(
        BOB, ADDRESSES[:1], secret, expiry_min=expiry_min, rights=["join"], name=name, group=link
    )  # fmt: skip
    assert parsed(made.text()) == made and made.group == link


@pytest.mark.parametrize(
    ("fields", "cause"),
    (
        (FIELDS | {"gr": 0}, "gr grants nothing"),
        (FIELDS | {"gr": 16}, "gr is not an unsigned number up to 15"),
        (FIELDS | {"inv": b"i" * 15}, "inv has 15 bytes instead of 16"),
        (FIELDS | {"exp": 1 << 32}, "exp is not an unsigned number up to 4294967295"),
        (FIELDS | {"at": [5, []]}, "at has 0 items; 1 to 8 are allowed"),
        (FIELDS | {"name": "x" * 65}, "name is longer than 64 bytes"),
        (FIELDS | {"id": bytes(32)}, "its signature does not fit"),
        (FIELDS | {"id": bytes(BOB.public)}, "its signature does not fit"),
        (FIELDS | {"sig": bytes(64)}, "its signature does not fit"),
        (FIELDS | {"sig": bytes(63)}, "sig has 63 bytes instead of 64"),
        (FIELDS | {"uses": 3}, "it has a key that is not known"),
        (FIELDS | {"grp": {"key": CONTENT_KEY}}, "grp lacks grp"),
        (FIELDS | {"grp": {"key": CONTENT_KEY, "grp": bytes(32)}}, "grp is not a valid Ed25519 public key"),
        (FIELDS | {"grp": {"key": CONTENT_KEY, "seed": b"s" * 31}}, "seed has 31 bytes instead of 32"),
        (
            FIELDS | {"grp": {"key": CONTENT_KEY, "seed": GROUP.seed, "grp": bytes(GROUP.public)}},
            "grp has a key that is not known",
        ),
        (FIELDS | {"grp": []}, "grp is not a map"),
    ),
)  # fmt: skip
def test_what_is_no_invitation(fields: dict[str, Any], cause: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_peer_link(link_of(fields))
    assert str(caught.value) == (
        f"This is not an invitation: it is damaged, letters of it are changed ({cause}). "
        "Copy the whole link again, from upsycle: to its last letter."
    )
    assert (b"i" * 16).hex() not in str(caught.value) and CONTENT_KEY.hex() not in str(caught.value)


def test_a_signature_for_something_else_does_not_fit() -> None:
    for label in (b"", b"\x01", b"upsycle prekey 1"):
        with pytest.raises(BadText, match="its signature does not fit"):
            parse_peer_link(link_of(FIELDS, label=label))


def test_an_unknown_kind_of_address_is_ignored_and_the_signature_fits() -> None:
    text = link_of(FIELDS | {"at": [5, [[9, "pigeon"], ADDRESSES[0].encoded()]]})
    assert parsed(text).addresses == ADDRESSES[:1]
    assert parsed(text).text() == text


def test_what_makes_a_link_too_long_is_named() -> None:
    long = make_invitation(
        ALICE, ADDRESSES * 2, b"i" * 16, expiry_min=1, rights=["join"], name="x" * 64,
        group=replace(LINKS[0], name="y" * 64),
    )  # fmt: skip
    with pytest.raises(BadText, match=r"512 are the most: leave out addresses, the group, or a name\.$"):
        long.text()


def test_the_link_of_a_node_is_verified_too() -> None:
    ours = make_advertisement(ALICE, ADDRESSES[:1], rev=1, expiry_min=1)
    assert parse_peer_link(ours.text()) == ours
    fields = value_of(ours.wire) | {"id": bytes(BOB.public)}
    text = "upsycle:" + urlsafe_b64encode(encode([1, fields])).rstrip(b"=").decode()
    with pytest.raises(
        BadText,
        match=r"not the link of a node: it is damaged, letters of it are changed \(its signature does not fit\)",
    ):
        parse_peer_link(text)
