"""The reasons why a LAN neighbour was not owed a message: each cause by value, and none where it was owed."""

from __future__ import annotations

import pytest
from samples.core import ALICE, GROUP

from router.core.neighbours.directory import JOIN, Directory, Neighbour
from router.core.routing.groups import Groups, Subscription
from router.core.routing.not_owed import NOT_JOINED, NOT_THEN, OF_A_ROUTER, OF_AN_UPLINK, OF_ANOTHER, lan_not_owed
from router.core.wire.crypto import SigningKey

ME, UP, PEER, EDGE, NEAR, NEXT, FAR = (bytes(SigningKey(bytes((n,)) * 32).public) for n in range(91, 98))
NEWS, CATS = bytes(GROUP.public), b"c" * 32
APP = bytes(ALICE.public)


def directory() -> Directory:
    found = Directory(ME, accept_strangers=True, locals={APP})
    edge = Neighbour(EDGE, grants=frozenset({JOIN}))
    found.replace_neighbours([Neighbour(UP, uplink=True), Neighbour(PEER), edge])
    for key, group, lan in ((NEAR, NEWS, True), (NEXT, NEWS, True), (FAR, NEWS, False), (UP, NEWS, True)):
        found.agreements.agree(b"s" * 32, key, [group], 100, 0, lan=lan)
    return found


@pytest.mark.parametrize(
    ("brought_by", "near", "next_"),
    [
        (UP, OF_AN_UPLINK, OF_AN_UPLINK), (PEER, OF_A_ROUTER, OF_A_ROUTER), (NEAR, None, OF_ANOTHER),
        (APP, NOT_THEN, NOT_JOINED), (EDGE, NOT_THEN, NOT_JOINED), (b"x" * 32, NOT_THEN, NOT_JOINED),
    ],
    ids=["uplink", "peer", "lan", "app", "client", "gone"],
)  # fmt: skip
def test_each_cause(brought_by: bytes, near: str | None, next_: str) -> None:
    groups = Groups()
    groups.add(Subscription(NEWS, NEAR, True, True))
    told = {NEAR: near, NEXT: next_}
    assert dict(lan_not_owed(directory(), groups, NEWS, brought_by, ())) == {
        key: why for key, why in told.items() if why
    }
    assert dict(lan_not_owed(directory(), groups, NEWS, brought_by, {NEAR, NEXT})) == {}
    assert dict(lan_not_owed(directory(), groups, CATS, brought_by, ())) == {}, "of another group it is owed nothing"
