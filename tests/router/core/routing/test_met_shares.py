"""The shares of a router known by meetings: small ones of its own while groups are agreed with it, otherwise the
strangers'."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from rigs.one_router import WALL_S, OneRouter
from samples.core import ALICE, GROUP

from router.core.neighbours.directory import STRANGERS, Neighbour
from router.core.routing.duplicate_index import Index
from router.core.routing.groups import Subscription
from router.core.routing.limits import CoreLimits, IndexLimits, QueueLimits
from router.core.routing.queues import RecipientQueues
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast
from router.core.wire.reasons import Reason

SERVICE = SigningKey(b"d" * 32)
MET, OTHER = (SigningKey(bytes((n,)) * 32) for n in (81, 82))
PLACE = "45.0.7.0/24"


def node(*known: Neighbour, limits: CoreLimits | None = None) -> OneRouter:
    one = OneRouter(
        *known, services={bytes(SERVICE.public): "discovery"}, locals=[ALICE.public], limits=limits, strangers=True
    )
    one.router.groups.add(Subscription(bytes(GROUP.public), bytes(ALICE.public), True, True))
    return one


def agree(one: OneRouter, *keys: SigningKey, groups: Iterable[SigningKey] = (GROUP,)) -> None:
    for key in keys:
        one.router.directory.agreements.agree(SERVICE.public, key.public, [g.public for g in groups], 600, 0)
    one.router._revocation.met([key.public for key in keys], one.now())
    one.cycle()


def bring(one: OneRouter, link: int, count: int) -> list[Reason]:
    expiry = expiry_min(WALL_S + 600)
    one.bring(link, *(seal_multicast(GROUP, b"%d" % n, ttl_s=60, expiry_min=expiry, seen=()) for n in range(count)))
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def test_it_fills_a_twentieth_of_a_recipients_queue() -> None:
    one = node(
        Neighbour(OTHER.public), limits=CoreLimits(queues=QueueLimits(recipient_messages_max=100, share_percent=25))
    )
    agree(one, MET, OTHER)
    for key, taken in ((MET, 5), (OTHER, 25)):
        link = one.link(key.public, role="router", messages=1000)
        assert bring(one, link, 40) == [Reason.QUEUE_FULL_GROUP] * (40 - taken), "a configured one has a neighbour's"
        one = node(Neighbour(OTHER.public), limits=one.router._limits)
        agree(one, MET, OTHER)


def test_it_is_charged_to_itself_only_while_something_is_agreed() -> None:
    one = node()
    number = one.link(MET.public, role="router")
    link = one.router.links.get(number)
    assert link is not None and (link.charged, link.holder) == (STRANGERS, STRANGERS[:8])
    agree(one, MET)
    assert (link.charged, link.holder) == (MET.public, MET.public[:8])
    assert one.router.directory.met == {MET.public[:8]}
    agree(one, MET, groups=())
    assert one.router.directory.met == set() and not link.up, "a stranger signs on anew"


def test_the_nodes_store_and_the_index_have_the_same_small_share() -> None:
    met = {MET.public[:8]}
    queues = RecipientQueues(
        QueueLimits(node_messages_max=1000, node_bytes_max=1 << 20, neighbour_node_percent=50), met
    )
    assert (queues.node_room(MET.public)[0], queues.node_room(OTHER.public)[0]) == (50, 500)
    index = Index(IndexLimits(entries_max=1000, strangers_percent=5, apps_percent=0), met=met)
    assert (index.room(MET.public[:8]), index.room(OTHER.public[:8])) == (47, 475)
    assert index.lifetime_s(MET.public[:8]) == index.limits.lifetime_s_max


@pytest.mark.parametrize(
    ("place", "let_in"), [(PLACE, 8), ("10.0.0.0/24", 12), ("127.0.0.0/24 (user 0)", 12), ("", 12)]
)
def test_of_one_public_prefix_eight_are_let_in(place: str, let_in: int) -> None:
    one = node()
    keys = [SigningKey(bytes((9, n)) * 16) for n in range(12)]
    agree(one, *keys)
    links = [one.link(key.public, role="router", place=place) for key in keys]
    assert sum(one.router.links.get(link) is not None for link in links) == let_in
    assert one.closed() == [(link, "rate-limited") for link in links[let_in:]]
    again = one.link(keys[0].public, role="router", place=place)
    assert one.router.links.get(again) is not None, "in place of its earlier link"
    assert one.router.links.get(one.link(keys[-1].public, role="router", place=place, dialled=True)) is not None
