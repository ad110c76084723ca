"""Frozen vectors of pub/sub: bytes that every other implementation must agree on.

`tests/vectors/pubsub.json` was written once from `make()`. If this test fails, the protocol has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from router.core.wire import advert, meeting
from router.core.wire.address import parse_address
from router.core.wire.crypto import MessageId, PublicKey, SigningKey, digest
from services.pubsub.core import messages
from services.pubsub.core.meetings import filters
from services.pubsub.core.meetings.group_sets import Agreement, GroupSet
from services.pubsub.core.rings.ring import place_of

PATH = Path(__file__).parents[2] / "vectors" / "pubsub.json"
FROZEN: dict[str, Any] = json.loads(PATH.read_text())

NAMES = (b"alice", b"bob", b"group", b"router", b"pubsub")
ALICE, BOB, GROUP, ROUTER, SERVICE = (SigningKey(digest(name)) for name in NAMES)
FIRST, SECOND = digest(b"first nonce")[:16], digest(b"second nonce")[:16]
MEETING = meeting.Meeting(ALICE.public, BOB.public, FIRST, SECOND)
T = MEETING.topic(GROUP.public)
SECRET = digest(b"filter secret")
REV, EXPIRY_MIN = 1_790_000_000_000, 3_100_000


def make() -> dict[str, Any]:
    """Return the content of the file, from fixed seeds."""
    groups = [GROUP.public, BOB.public]
    return {
        "about": "Bytes are hex. The seed of a key is the BLAKE3 of its name, as in messages.json.",
        "topic": T.hex(),
        "bits_of_group": list(filters.bits_of(GROUP.public)),
        "filter": filters.tell(groups, SECRET).hex(),
        "place": f"{place_of(SERVICE.public, ROUTER.public):0128x}",
        "message": {name: messages.encode_message(one).hex() for name, one in _messages().items()},
    }


def _advertisement(number: int) -> advert.Advertisement:
    return advert.make_advertisement(
        ROUTER, [parse_address("tls://198.51.100.7:4101")], services={"pubsub": SERVICE.public}, rev=REV + number,
        expiry_min=EXPIRY_MIN,
    )  # fmt: skip


def _messages() -> dict[str, messages.Message]:
    mine = messages.make_filter(SERVICE, REV, filters.tell([GROUP.public, BOB.public], SECRET))
    one, two = _advertisement(0), _advertisement(1)
    rings = (messages.Ring(T, (messages.Member(0, 1), messages.Member(1, 25))), messages.Ring(FIRST, ()))
    ids = MessageId(digest(b"first")), MessageId(digest(b"second"))
    agreement = Agreement(GroupSet(MEETING, [GROUP.public, BOB.public]), asks=True)
    return {
        "meet": meeting.Meet(FIRST),
        "met": meeting.Met(FIRST, SECOND, (T,)),
        "ask_interests": messages.AskInterests(mine, (messages.Interested(0, one, mine),)),
        "tell_interests": messages.TellInterests(mine, ()),
        "ask_rings": messages.AskRings((one, two), rings),
        "tell_rings": messages.TellRings((), (messages.Ring(T, ()),)),
        "compare": messages.Compare(T, EXPIRY_MIN, EXPIRY_MIN + 60, b"\x61\x00\x00\x02\x00", 3600),
        "compared": messages.Compared(T, EXPIRY_MIN, EXPIRY_MIN + 60, b"\x61", b"\x01\x00\x00\x00\x07\x00", 7),
        "have": messages.Have(T, ids),
        "ask_groups": messages.AskGroups(T, 0, agreement.next_frame()),
        "tell_groups": messages.TellGroups(T, 0, agreement.next_frame()),
    }


@pytest.mark.parametrize("part", sorted(make()))
def test_reproduced(part: str) -> None:
    assert make()[part] == FROZEN[part]


def test_nothing_else_is_frozen() -> None:
    assert sorted(FROZEN) == sorted(make())


def test_frozen_values_are_read_back() -> None:
    for name, message in _messages().items():
        found = messages.decode_message(bytes.fromhex(FROZEN["message"][name]))
        assert found == message
    asked = messages.decode_message(bytes.fromhex(FROZEN["message"]["ask_interests"]))
    assert isinstance(asked, messages.AskInterests) and asked.mine.is_signed_by(SERVICE.public)
    assert asked.view[0].advert.verify() and not asked.mine.is_signed_by(PublicKey(BOB.public))
