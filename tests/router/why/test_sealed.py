"""`router why` says whether a message to one address was sealed, while the node holds its bytes."""

from __future__ import annotations

from array import array
from dataclasses import replace
from random import Random

from samples.core import ALICE, BOB, GROUP
from samples.stores import WALL_S, parcel

from router.core.routing.parcel import U32, Parcel
from router.core.wire.codec import frame
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import MULTICAST, UNICAST, seal_multicast, seal_unicast
from router.core.wire.unicast_seal import BEGINS
from router.why.sealed import sealed_json

SEALED_BODY, OPEN_BODY = BEGINS + bytes(300), b"hello"


def held(kind: int, *wires: bytes) -> Parcel:
    """Return a parcel of these messages."""
    frames = [frame(one) for one in wires]
    ends = array(U32, [sum(map(len, frames[: at + 1])) for at in range(len(frames))])
    return replace(parcel(Random(1), 1, WALL_S, count=len(wires)), kind=kind, blob=b"".join(frames), ends=ends)


def unicast(body: bytes) -> bytes:
    return seal_unicast(ALICE, BOB.public, body, ttl_s=60, expiry_min=expiry_min(WALL_S + 600))


def test_the_first_bytes_of_the_body_tell_of_each_message_of_a_parcel() -> None:
    found = held(UNICAST, unicast(SEALED_BODY), unicast(OPEN_BODY), unicast(b""))
    assert [sealed_json((found, at)) for at in range(3)] == [{"sealed": True}, {"sealed": False}, {"sealed": False}]


def test_of_a_message_whose_bytes_are_gone_it_is_not_known_and_of_a_group_nothing_is_said() -> None:
    assert sealed_json(None) == {"sealed": None}
    wire = seal_multicast(GROUP, SEALED_BODY, ttl_s=60, expiry_min=expiry_min(WALL_S + 600))
    assert sealed_json((held(MULTICAST, wire), 0)) == {}
