"""The shares of the node's queue: messages of one neighbour leave room to all others, also after a restart."""

from __future__ import annotations

from itertools import count

from rigs.one_router import WALL_S, OneRouter
from rigs.plain_store import Disk
from samples.core import ALICE, BOB

from router.core.neighbours.directory import JOIN, RELAY, STORE, Neighbour
from router.core.routing.limits import CoreLimits, QueueLimits
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason

CLIENTS = [SigningKey(bytes((n,)) * 32) for n in range(60, 66)]
PEER = SigningKey(b"p" * 32)
LIMITS = CoreLimits(queues=QueueLimits(node_messages_max=100, share_percent=100))
_bodies = count()


def house(disk: Disk | None = None, limits: CoreLimits = LIMITS) -> OneRouter:
    """Return a router whose local app Bob is away, so that messages for him wait."""
    known = [Neighbour(one.public, grants=frozenset((JOIN, STORE, RELAY))) for one in CLIENTS]
    return OneRouter(*known, Neighbour(PEER.public), limits=limits, locals=[ALICE.public, BOB.public], disk=disk)


def bring(one: OneRouter, link: int, source: SigningKey, many: int, to: PublicKey = BOB.public) -> list[Reason]:
    """Bring that many messages for a recipient; return why some were refused."""
    expiry = expiry_min(WALL_S + 3600)
    wires = [seal_unicast(source, to, b"%d" % next(_bodies), ttl_s=600, expiry_min=expiry) for _ in range(many)]
    one.bring(link, *wires)
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def test_a_client_that_fills_the_node_leaves_room_to_all_others() -> None:
    one = house()
    first, second, third, *_ = (one.link(client.public, role="router") for client in CLIENTS)
    refused = bring(one, first, CLIENTS[0], 200)
    assert refused == [Reason.QUEUE_FULL_NODE] * 150 and refused[0].later, "alone it gets half"
    assert bring(one, second, CLIENTS[1], 20) == []
    assert bring(one, second, CLIENTS[1], 200) == [Reason.QUEUE_FULL_NODE] * 195, "half of what that left"
    assert bring(one, third, CLIENTS[2], 1) == []
    assert bring(one, one.link(PEER.public, role="router"), PEER, 1) == []
    assert bring(one, one.link(ALICE.public), ALICE, 23) == [], "an app of this node gets all that is left"


def test_what_was_given_back_may_be_taken_again() -> None:
    one = house()
    first = one.link(CLIENTS[0].public, role="router")
    assert bring(one, first, CLIENTS[0], 50) == []
    assert bring(one, first, CLIENTS[0], 1) == [Reason.QUEUE_FULL_NODE]
    bob = one.link(BOB.public, messages=100, size=1 << 20)
    one.router.settled(bob, 50, one.now())
    one.cycle()
    assert not one.router.queues.held
    assert bring(one, first, CLIENTS[0], 50) == []


def test_shares_are_the_same_after_a_restart() -> None:
    before = house()
    for key in CLIENTS[:2]:
        assert bring(before, before.link(key.public, role="router"), key, 10) == []
    again = house(before.disk)
    assert again.router.queues.held == before.router.queues.held != {}
    assert bring(again, again.link(CLIENTS[0].public, role="router"), CLIENTS[0], 90)
    assert again.router.queues.held[CLIENTS[0].public[:8]] == (45, again.router.queues.held[CLIENTS[0].public[:8]][1])


def test_a_message_that_alone_is_more_than_its_share_fits_an_empty_one() -> None:
    one = house(limits=CoreLimits(queues=QueueLimits(node_bytes_max=1000, share_percent=100)))
    first = one.link(CLIENTS[0].public, role="router")
    wire = seal_unicast(CLIENTS[0], BOB.public, b"x" * 600, ttl_s=60, expiry_min=expiry_min(WALL_S + 60))
    one.bring(first, wire)
    one.cycle()
    assert one.settled()[first] == (1, [])
