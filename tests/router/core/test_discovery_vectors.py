"""Frozen vectors of discovery and invitations: bytes that every other implementation must agree on.

`tests/vectors/discovery.json` was written once from `make()`. If this test fails, the protocol has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from router.core.wire import advert, grouplink, hint, invitation, meeting, redemption
from router.core.wire.address import encoded_addresses, parse_address, read_addresses
from router.core.wire.codec import decode, encode
from router.core.wire.crypto import SigningKey, digest
from router.core.wire.reasons import INVITE_USED_UP
from services.discovery.core import messages

PATH = Path(__file__).parents[2] / "vectors" / "discovery.json"
FROZEN: dict[str, Any] = json.loads(PATH.read_text())

NAMES = (b"alice", b"bob", b"group", b"router", b"discovery")
ALICE, BOB, GROUP, ROUTER, SERVICE = (SigningKey(digest(name)) for name in NAMES)
CONTENT_KEY, SECRET = digest(b"content key"), digest(b"secret")[:16]
FIRST, SECOND = digest(b"first nonce")[:16], digest(b"second nonce")[:16]
FILLER = b"".join(digest(b"filler %d" % n)[:16] for n in range(32))
MEETING = meeting.Meeting(ALICE.public, BOB.public, FIRST, SECOND)
URLS = (
    "tls://198.51.100.7:4101", "tls://[2001:db8::7]:65535", "tls://router.example.org:443", "wss://example.org/router",
)  # fmt: skip
ADDRESSES = tuple(map(parse_address, URLS))
HINTS = ("to_router", hint.TO_ROUTER), ("to_service", hint.TO_SERVICE)
REV, EXPIRY_MIN = 1_790_000_000_000, 3_100_000


def make() -> dict[str, Any]:
    """Return the content of the file, from fixed seeds."""
    return {
        "about": "Bytes are hex. The seed of a key is the BLAKE3 of its name, as in messages.json.",
        "address": {url: encode(one.encoded()).hex() for url, one in zip(URLS, ADDRESSES, strict=True)},
        "addresses": encode(encoded_addresses(ADDRESSES)).hex(),
        "advertisement": {name: one.message.hex() for name, one in _advertisements().items()},
        "link": {
            "node": _advertisements()["plain"].text(),
            "group_with_hints": _hinted().text(),
            **{f"invitation_{name}": one.text() for name, one in _invitations().items()},
        },
        "invitation_id": invitation.invitation_id(SECRET).hex(),
        "hint": {
            name: hint.encode_hint(hint.Hinted(GROUP.public, _hinted().hints), kind).hex() for name, kind in HINTS
        },
        "redemption": {name: redemption.encode_redemption(one).hex() for name, one in _redemptions().items()},
        "message": {name: messages.encode_message(one).hex() for name, one in _messages().items()},
        "topic": MEETING.topic(GROUP.public).hex(),
    }


def _advertisements() -> dict[str, advert.Advertisement]:
    services = {"discovery": SERVICE.public, "pubsub": BOB.public}
    return {
        "plain": advert.make_advertisement(ROUTER, ADDRESSES[:1], rev=REV, expiry_min=EXPIRY_MIN),
        "full": advert.make_advertisement(
            ROUTER, ADDRESSES, services=services, groups=[GROUP.public, BOB.public], rev=REV + 1, ttl_s=30,
            expiry_min=EXPIRY_MIN,
        ),
        "farewell": advert.make_advertisement(
            ROUTER, [parse_address("tls://0.0.0.0:4101")], rev=REV + 2, ttl_s=0, expiry_min=EXPIRY_MIN
        ),
    }  # fmt: skip


def _group_link() -> grouplink.GroupLink:
    return grouplink.new_group(GROUP.seed, CONTENT_KEY, "bread & roses")


def _hinted() -> grouplink.GroupLink:
    hints = hint.Hint(ROUTER.public, ADDRESSES[:1]), hint.Hint(BOB.public, ADDRESSES[1:3])
    return grouplink.GroupLink(GROUP.public, CONTENT_KEY, None, None, hints)


def _invitations() -> dict[str, invitation.Invitation]:
    return {
        "least": invitation.make_invitation(ROUTER, ADDRESSES[:1], SECRET, expiry_min=EXPIRY_MIN, rights=["why"]),
        "sending": invitation.make_invitation(
            ROUTER, ADDRESSES[:2], SECRET, expiry_min=EXPIRY_MIN, rights=["join", "store", "relay"], name="bakery",
            group=_group_link(),
        ),
        "reading": invitation.make_invitation(
            ROUTER, ADDRESSES[2:3], SECRET, expiry_min=EXPIRY_MIN, rights=["join"], group=_group_link().read_only()
        ),
    }  # fmt: skip


def _redemptions() -> dict[str, redemption.Redemption]:
    return {
        "redeem": redemption.Redeem(SECRET),
        "redeem_named": redemption.Redeem(SECRET, "Bob"),
        "redeemed": redemption.Redeemed(SECRET, None, ("join", "store"), EXPIRY_MIN),
        "redeemed_without_end": redemption.Redeemed(SECRET, None, ("join",)),
        "redeemed_refused": redemption.Redeemed(SECRET, INVITE_USED_UP),
    }


def _messages() -> dict[str, messages.Message]:
    plain, full, _ = _advertisements().values()
    return {
        "sample": messages.Sample((messages.Entry(0, plain), messages.Entry(25, full))),
        "sampled_empty": messages.Sampled(()),
        "meet": meeting.Meet(FIRST),
        "met": meeting.Met(FIRST, SECOND, MEETING.tags([GROUP.public, BOB.public], FILLER)),
        "dial_me": messages.DialMe(FIRST, 4101),
        "dialled": messages.Dialled(FIRST, ADDRESSES[0]),
        "dialled_in_vain": messages.Dialled(FIRST, ADDRESSES[1], 22, "connection refused"),
    }


@pytest.mark.parametrize("part", sorted(make()))
def test_reproduced(part: str) -> None:
    assert make()[part] == FROZEN[part]


def test_nothing_else_is_frozen() -> None:
    assert sorted(FROZEN) == sorted(make())


def test_frozen_values_are_read_back() -> None:
    """Decode from the file alone, as another implementation would."""
    assert read_addresses(decode(bytes.fromhex(FROZEN["addresses"]), 64), "addr") == ADDRESSES
    for name, one in _advertisements().items():
        found = advert.decode_datagram(bytes.fromhex(FROZEN["advertisement"][name]))
        assert found == one and found.verify()
    for name, answer in _redemptions().items():
        assert redemption.decode_redemption(bytes.fromhex(FROZEN["redemption"][name])) == answer
    for name, _ in HINTS:
        assert hint.decode_hint(bytes.fromhex(FROZEN["hint"][name])) == hint.Hinted(GROUP.public, _hinted().hints)
    for name, message in _messages().items():
        assert messages.decode_message(bytes.fromhex(FROZEN["message"][name])) == message


def test_frozen_links_are_read_back() -> None:
    links = FROZEN["link"]
    assert grouplink.parse_link(links["group_with_hints"]) == _hinted()
    assert invitation.parse_peer_link(links["node"]) == _advertisements()["plain"]
    for name, one in _invitations().items():
        assert invitation.parse_peer_link(links[f"invitation_{name}"]) == one


def test_the_other_finds_the_shared_group_by_the_frozen_tags() -> None:
    met = messages.decode_message(bytes.fromhex(FROZEN["message"]["met"]))
    assert isinstance(met, meeting.Met)
    other = meeting.Meeting(BOB.public, ALICE.public, FIRST, SECOND)
    assert other.shared([ALICE.public, GROUP.public], met.tags) == [GROUP.public]
