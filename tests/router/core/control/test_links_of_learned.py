"""The service that finds routers is told of the links of the neighbours that it has made known, and of no others."""

from __future__ import annotations

from rigs.one_router import WALL_S, OneRouter
from samples.core import ALICE, BOB

from router.core.neighbours.directory import Neighbour
from router.core.wire.admin import Inquiry, decode_inquiry, encode_inquiry, is_inquiry
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from router.service.verbs.add_neighbour import AddNeighbour, NeighbourLinked

FINDER, OTHER = (SigningKey(bytes((n,)) * 32) for n in (61, 62))
SERVICES = {bytes(FINDER.public): "discovery", bytes(OTHER.public): "pubsub"}


def told(one: OneRouter, link: int) -> list[NeighbourLinked]:
    bodies = [open_message(wire).body for wire in one.told(link)]
    found = [decode_inquiry(body) for body in bodies if is_inquiry(body)]
    words = [each for each in found if isinstance(each, Inquiry) and each.ask == NeighbourLinked.WORD]
    return [NeighbourLinked.from_argument(each.argument) for each in words]


def learn(one: OneRouter, service: SigningKey, link: int, key: PublicKey) -> None:
    said = AddNeighbour(key, ("tls://10.0.0.9:4101",), WALL_S + 600, how="lan")
    me = PublicKey(one.router.directory.me)
    body = encode_inquiry(said.inquiry())
    one.bring(link, seal_unicast(service, me, body, ttl_s=0, expiry_min=expiry_min(WALL_S + 60)))
    one.cycle()


def test_a_link_of_a_neighbour_that_it_has_learned_is_told_with_its_address_up_and_down() -> None:
    one = OneRouter(services=SERVICES)
    finder, other = one.link(FINDER.public), one.link(OTHER.public)
    learn(one, FINDER, finder, ALICE.public)
    learn(one, OTHER, other, BOB.public)
    first = one.link(ALICE.public, role="router", ip="10.0.0.9")
    one.link(BOB.public, role="router", ip="10.0.0.10")
    assert told(one, finder) == [NeighbourLinked(ALICE.public, "10.0.0.9")]
    one.router.link_down(first, one.now())
    one.pass_time(5)
    assert told(one, finder) == [NeighbourLinked(ALICE.public, is_up=False)]
    assert told(one, other) == []


def test_one_that_was_connected_before_it_was_learned_is_told_at_once() -> None:
    one = OneRouter(Neighbour(ALICE.public), services=SERVICES)
    one.link(ALICE.public, role="router", ip="10.0.0.9")
    finder = one.link(FINDER.public)
    assert told(one, finder) == []
    for _ in range(2):
        learn(one, FINDER, finder, ALICE.public)
    assert told(one, finder) == [NeighbourLinked(ALICE.public, "10.0.0.9")]


def test_a_service_that_is_back_is_told_of_all_links_of_its_neighbours() -> None:
    one = OneRouter(services=SERVICES)
    finder = one.link(FINDER.public)
    for key in (ALICE, BOB):
        learn(one, FINDER, finder, key.public)
    one.router.link_down(finder, one.now())
    one.link(ALICE.public, role="router", ip="10.0.0.9")
    assert told(one, one.link(FINDER.public)) == [NeighbourLinked(ALICE.public, "10.0.0.9")]


def test_an_address_heard_on_the_lan_is_doubted_until_its_key_is_found_there() -> None:
    one = OneRouter(services=SERVICES)
    learn(one, FINDER, one.link(FINDER.public), ALICE.public)
    known = one.router.directory.neighbours[ALICE.public]
    assert known.doubted and known.learned == "lan"
