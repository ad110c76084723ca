"""Routers with a pub/sub service are reported to that of this node, as they come and go."""

from __future__ import annotations

import json

from msgspec.structs import replace
from rigs.one_router import OneRouter
from samples.core import ALICE, BOB

from router.core.neighbours.directory import Neighbour
from router.core.wire.admin import Inquiry, decode_inquiry, is_inquiry
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.message import open_message
from router.service.verbs.linked import Linked

SERVICE, OTHER, THEIRS = (SigningKey(bytes((n,)) * 32).public for n in (61, 62, 63))
NEIGHBOURS = Neighbour(ALICE.public), Neighbour(BOB.public)


def told(one: OneRouter, link: int) -> list[tuple[PublicKey, str]]:
    bodies = [open_message(wire).body for wire in one.told(link)]
    found = [decode_inquiry(body) for body in bodies if is_inquiry(body)]
    said = [json.loads(each.argument) for each in found if isinstance(each, Inquiry) and each.ask == Linked.WORD]
    return [(PublicKey(bytes.fromhex(each["router"])), each["service"]) for each in said]


def test_it_is_told_of_routers_that_name_one_and_of_no_others() -> None:
    one = OneRouter(*NEIGHBOURS, services={bytes(SERVICE): "pubsub", bytes(OTHER): "discovery"})
    first = one.link(ALICE.public, role="router", pubsub=THEIRS)
    one.link(BOB.public, role="router")
    service, other = one.link(SERVICE), one.link(OTHER)
    assert told(one, service) == [(ALICE.public, THEIRS.hex())], "also of those that were there before it"
    one.router.link_down(first, one.now())
    one.pass_time(5)
    assert told(one, service) == [(ALICE.public, "")]
    one.link(ALICE.public, role="router", pubsub=THEIRS)
    assert told(one, service) == [(ALICE.public, THEIRS.hex())]
    assert told(one, other) == []


def test_what_an_app_claims_does_not_count() -> None:
    one = OneRouter(services={bytes(SERVICE): "pubsub"}, locals=[ALICE.public])
    service = one.link(SERVICE)
    one.link(ALICE.public, pubsub=THEIRS)
    one.pass_time(5)
    assert told(one, service) == []


def test_a_service_that_settles_nothing_is_told_when_there_is_room() -> None:
    one = OneRouter(*NEIGHBOURS, services={bytes(SERVICE): "pubsub"})
    service = one.link(SERVICE, messages=1)
    one.link(ALICE.public, role="router", pubsub=THEIRS)
    one.link(BOB.public, role="router", pubsub=THEIRS)
    one.pass_time(5)
    assert told(one, service) == [(ALICE.public, THEIRS.hex())]
    one.router.settled(service, 1, one.now())
    one.pass_time(5)
    assert told(one, service) == [(BOB.public, THEIRS.hex())]


def test_linked_is_said_again_of_a_router_that_becomes_an_uplink() -> None:
    known = Neighbour(ALICE.public)
    one = OneRouter(known, services={bytes(SERVICE): "pubsub"})
    service = one.link(SERVICE)
    one.link(ALICE.public, role="router", pubsub=THEIRS)
    assert told(one, service) == [(ALICE.public, THEIRS.hex())]
    one.router.neighbours_changed([replace(known, uplink=True)], one.now())
    one.cycle()
    assert told(one, service) == [(ALICE.public, THEIRS.hex())]


def test_discovery_is_told_of_configured_routers_and_of_no_clients() -> None:
    client = Neighbour(BOB.public, grants=frozenset(("join",)))
    one = OneRouter(NEIGHBOURS[0], client, services={bytes(SERVICE): "pubsub", bytes(OTHER): "discovery"})
    service, other = one.link(SERVICE), one.link(OTHER)
    first = one.link(ALICE.public, role="router", discovery=THEIRS)
    one.link(BOB.public, role="router", discovery=THEIRS)
    assert told(one, other) == [(ALICE.public, THEIRS.hex())] and told(one, service) == []
    one.router.neighbours_changed([NEIGHBOURS[0], Neighbour(BOB.public)], one.now())
    one.pass_time(5)
    assert told(one, other) == [(BOB.public, THEIRS.hex())], "it is no client any more"
    one.router.link_down(first, one.now())
    one.pass_time(5)
    assert told(one, other) == [(ALICE.public, "")]
