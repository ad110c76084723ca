"""The shares of the duplicate index: ids of one bringer take no room from another, now and after a restart."""

from __future__ import annotations

from itertools import count

import pytest
from rigs.one_router import WALL_S, OneRouter
from samples.core import ALICE, BOB

from router.core.neighbours.directory import JOIN, RELAY, STORE, Neighbour
from router.core.routing.duplicate_index import APPS, STRANGERS_HOLDER
from router.core.routing.limits import CoreLimits, IndexLimits
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason

STRANGER, CLIENT, OTHER = (SigningKey(bytes((n,)) * 32) for n in (11, 12, 13))
GRANTS = frozenset((JOIN, STORE, RELAY))
DAY_S = 86_400
LIMITS = CoreLimits(index=IndexLimits(entries_max=1000))
_bodies = count()


def letters(source: SigningKey, many: int, *, life_s: int = DAY_S, ttl_s: int = 0) -> list[bytes]:
    """Return different unicasts to Bob."""
    expiry = expiry_min(WALL_S + life_s)
    bodies = (b"%d" % next(_bodies) for _ in range(many))
    return [seal_unicast(source, BOB.public, body, ttl_s=ttl_s, expiry_min=expiry) for body in bodies]


def house(limits: CoreLimits = LIMITS) -> tuple[OneRouter, int, int]:
    """Return a router that admits strangers, with two apps, of which Bob is public; and the links of Alice and Bob."""
    known = [Neighbour(one.public, grants=GRANTS) for one in (CLIENT, OTHER)]
    one = OneRouter(*known, limits=limits, strangers=True, locals=[ALICE.public, BOB.public])
    one.router.directory.public = frozenset([bytes(BOB.public)])
    return one, one.link(ALICE.public), one.link(BOB.public, messages=1 << 20, size=1 << 30)


def bring(one: OneRouter, link: int, bob: int, wires: list[bytes]) -> list[Reason]:
    """Bring messages, decide them, and have Bob settle them; return why some were refused."""
    refused = []
    for at in range(0, len(wires), 50):
        one.bring(link, *wires[at : at + 50])
        one.cycle()
        refused += [reason for _, reason, _ in one.settled()[link][1]]
        one.router.settled(bob, one.router.links.get(bob).outgoing.sent, one.now())  # type: ignore[union-attr]
        one.cycle()
    return refused


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_what_strangers_write_takes_no_time_from_a_local_app(ttl_s: int) -> None:
    """Strangers fill the whole index; the app may still use the longest life."""
    one, alice, bob = house()
    stranger = one.link(STRANGER.public, owner=False)
    bring(one, stranger, bob, letters(STRANGER, 950, ttl_s=ttl_s))
    assert bring(one, alice, bob, letters(ALICE, 100, life_s=7 * DAY_S, ttl_s=ttl_s)) == []
    assert one.router.index.held(STRANGERS_HOLDER) == 50


def test_what_a_client_writes_leaves_room_to_other_clients_and_to_the_apps() -> None:
    one, alice, bob = house()
    client, other = (one.link(key.public, role="router") for key in (CLIENT, OTHER))
    refused = bring(one, client, bob, letters(CLIENT, 500, life_s=60))
    assert set(refused) == {Reason.INDEX_FULL} and refused[0].later
    assert one.router.index.shares == {bytes(CLIENT.public)[:8]: 375}, "half of what apps and strangers leave"
    assert bring(one, other, bob, letters(OTHER, 90, life_s=7 * DAY_S)) == []
    assert bring(one, alice, bob, letters(ALICE, 90, life_s=7 * DAY_S)) == []


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_a_read_takes_no_more_of_the_index_than_is_left(ttl_s: int) -> None:
    """All messages of one read are decided together, and are cut to the room that the first of them finds."""
    one, _, _ = house(CoreLimits(index=IndexLimits(entries_max=100)))
    client = one.link(CLIENT.public, role="router", messages=1 << 20, size=1 << 30)
    room = one.router.index.room(bytes(CLIENT.public)[:8])
    one.bring(client, *letters(CLIENT, room + 20, life_s=60, ttl_s=ttl_s))
    one.cycle()
    refused = [reason for _, reason, _ in one.settled()[client][1]]
    assert refused == [Reason.INDEX_FULL] * 20
    assert one.router.index.shares == {bytes(CLIENT.public)[:8]: room}


def test_a_horizon_that_shrank_refuses_for_now_and_a_lifetime_for_good() -> None:
    one, _, bob = house()
    client = one.link(CLIENT.public, role="router")
    assert bring(one, client, bob, letters(CLIENT, 280)) == []
    long, too_long = letters(CLIENT, 1, life_s=6 * DAY_S), letters(CLIENT, 1, life_s=8 * DAY_S)
    assert bring(one, client, bob, long + too_long) == [Reason.INDEX_FULL, Reason.EXPIRY_TOO_FAR]
    one.seconds += DAY_S + 700
    assert bring(one, client, bob, letters(CLIENT, 1, life_s=2 * DAY_S)) == [], "with it the dead are swept"
    assert bring(one, client, bob, long) == [], "when there is room again"


def test_shares_are_the_same_after_a_restart_and_age_with_their_ids() -> None:
    one, alice, bob = house()
    stranger, client = one.link(STRANGER.public, owner=False), one.link(CLIENT.public, role="router")
    for link, key, many in ((alice, ALICE, 30), (stranger, STRANGER, 20), (client, CLIENT, 10)):
        assert bring(one, link, bob, letters(key, many, life_s=600)) == []
    before = one.router.index
    assert (before.held(APPS), before.held(STRANGERS_HOLDER), before.entries) == (30, 20, 60)
    again = OneRouter(limits=LIMITS, disk=one.disk, seconds=one.seconds)
    assert (again.router.index.entries, again.router.index.shares) == (60, before.shares)
    again.pass_time(2000)
    again.link(ALICE.public)
    assert (again.router.index.entries, again.router.index.shares) == (0, {})


def test_strangers_hear_that_a_life_is_too_long_and_that_they_may_come_again() -> None:
    """The refusal reveals nothing about who exists."""
    one, _, bob = house()
    stranger = one.link(STRANGER.public, owner=False)
    one.bring(stranger, *letters(STRANGER, 1, life_s=3 * DAY_S))
    one.cycle()
    text = "a message of a key that this node does not know may expire at most 172800 s ahead"
    assert one.settled()[stranger] == (1, [(1, Reason.EXPIRY_TOO_FAR, text)])
    bring(one, stranger, bob, letters(STRANGER, 50, life_s=60))
    assert bring(one, stranger, bob, letters(STRANGER, 1, life_s=60)) == [Reason.RATE_LIMITED]
    to_nobody = seal_unicast(STRANGER, CLIENT.public, b"", ttl_s=0, expiry_min=expiry_min(WALL_S + 60))
    assert bring(one, stranger, bob, [to_nobody]) == [Reason.NOT_AUTHORISED]
