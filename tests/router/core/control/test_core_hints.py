"""Hints of apps and clients: who may give them, which addresses count, and who is told (R-C28)."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.control import hints
from router.core.control.wanted import AGAIN_S
from router.core.neighbours.directory import JOIN, STORE, Neighbour
from router.core.routing.effects import SendOwn
from router.core.wire.address import AddressSource, TransportAddress, parse_address
from router.core.wire.admin import encode_inquiry
from router.core.wire.control import Control, Join, JoinAck, Leave, LeaveAck, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.hint import HINT_BYTES_MAX, TO_ROUTER, TO_SERVICE, Hint, Hinted, decode_hint, encode_hint, is_hint
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from router.core.wire.pubsub import decode_wanted, is_wanted
from router.core.wire.reasons import Reason
from router.service.verbs.take_part import TakeParts

PUBSUB, DISCOVERY, UP, CLIENT, PEER, CORE, OTHER = (SigningKey(bytes((n,)) * 32) for n in range(61, 68))
NEWS = GROUP.public
EXPIRY = expiry_min(WALL_S + 600)
FAR, NEAR, HERE = map(parse_address, ("tls://198.51.100.7:4101", "tls://192.168.1.7:4101", "tls://127.0.0.1:4101"))


def house(**more: object) -> OneRouter:
    up, client = Neighbour(UP.public, uplink=True), Neighbour(CLIENT.public, grants=frozenset({JOIN, STORE}))
    services = {bytes(PUBSUB.public): "pubsub", bytes(DISCOVERY.public): "discovery"}
    known = up, client, Neighbour(PEER.public), Neighbour(OTHER.public, blocked=True)
    return OneRouter(*known, services=services, locals=[ALICE.public], **more)  # type: ignore[arg-type]


def say(one: OneRouter, link: int, source: SigningKey, said: Control | bytes) -> list[Reason]:
    body = said if isinstance(said, bytes) else encode_control(said)
    one.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def hint(*addresses: TransportAddress, router: PublicKey = CORE.public, group: PublicKey = NEWS) -> Hinted:
    return Hinted(group, (Hint(router, addresses),))


def gives(one: OneRouter, link: int, source: SigningKey, said: Hinted) -> list[Reason]:
    return say(one, link, source, encode_hint(said, TO_ROUTER))


def told(one: OneRouter, link: int) -> list[object]:
    """Return the SUBs (True), UNSUBs and HINTs sent over the link, each once."""
    mine = [each for each in one.done if isinstance(each, SendOwn) and each.link == link]
    one.done = [each for each in one.done if each not in mine]
    bodies = [open_message(each.wire).body for each in mine]
    return [
        decode_wanted(body).wanted if is_wanted(body) else decode_hint(body)
        for body in bodies if is_hint(body) or (is_wanted(body) and link in services(one))
    ]  # fmt: skip


def services(one: OneRouter) -> set[int]:
    return {link.id for link in one.router.links if link.key in one.router.directory.services}


def test_an_apps_hint_goes_with_sub_to_the_pubsub_service_and_after_join_to_uplinks() -> None:
    one = house()
    service, discovery, alice = (one.link(key.public) for key in (PUBSUB, DISCOVERY, ALICE))
    up, peer = one.link(UP.public, role="router"), one.link(PEER.public, role="router")
    say(one, alice, ALICE, Join(NEWS, False))
    say(one, up, UP, JoinAck(NEWS, True))
    assert (told(one, service), told(one, discovery), told(one, up)) == ([True], [True], [])
    said = hint(FAR, NEAR)
    assert gives(one, alice, ALICE, said) == []
    assert told(one, service) == [True, said], "an app of this node may name a private address"
    assert told(one, up) == [said] and told(one, discovery) == told(one, peer) == []
    on_this_machine = hint(HERE)
    assert gives(one, alice, ALICE, on_this_machine) == []
    assert told(one, up) == [on_this_machine], "the uplink may be on this machine, and judges whether to dial there"
    assert gives(one, alice, ALICE, said) == []
    assert told(one, up) == [said]
    told(one, service)
    gives(one, alice, ALICE, said)
    assert told(one, service) == [], "it says nothing new"
    one.pass_time(AGAIN_S)
    assert told(one, service) == [True, said], "until SUB_ACK"
    kinds = [open_message(each.wire).body[:2] for each in one.done if isinstance(each, SendOwn)]
    assert TO_SERVICE not in kinds, "that form is the pub/sub service's alone"
    say(one, service, PUBSUB, JoinAck(NEWS, True))
    one.pass_time(AGAIN_S)
    assert told(one, service) == []


def test_it_is_told_again_whenever_they_connect_and_outlives_a_restart() -> None:
    one = house()
    alice = one.link(ALICE.public)
    say(one, alice, ALICE, Join(NEWS, False))
    gives(one, alice, ALICE, hint(FAR))
    one = house(disk=one.disk)
    service, alice, _ = one.link(PUBSUB.public), one.link(ALICE.public), one.link(BOB.public)
    up = one.link(UP.public, role="router")
    assert told(one, service) == [True, hint(FAR)] and told(one, up) == [hint(FAR)]
    say(one, alice, ALICE, Leave(NEWS))
    say(one, alice, ALICE, Join(NEWS, False))
    assert told(one, service) == [False, True], "it is forgotten with the last who wants the group"
    again = house(disk=one.disk)
    assert told(again, again.link(PUBSUB.public)) == [True]


def test_a_client_names_public_addresses_only_and_what_apps_say_goes_first() -> None:
    one = house()
    service, client, alice = one.link(PUBSUB.public), one.link(CLIENT.public, role="router"), one.link(ALICE.public)
    say(one, client, CLIENT, Join(NEWS, False))
    for said in (hint(NEAR), hint(HERE), hint(FAR, router=ME.public), hint(FAR, router=OTHER.public)):
        gives(one, client, CLIENT, said)
        assert told(one, service)[1:] == [], "private, loopback, this router itself, a blocked one"
    gives(one, client, CLIENT, hint(NEAR, FAR))
    assert told(one, service) == [True, hint(FAR)]
    say(one, alice, ALICE, Join(NEWS, False))
    gives(one, alice, ALICE, hint(FAR, router=BOB.public))
    assert told(one, service) == [True, hint(FAR, router=BOB.public), hint(FAR)]
    one.router.directory.addresses = (HERE,)
    gives(one, client, CLIENT, hint(HERE))
    assert told(one, service)[2:] == [hint(HERE)], "where this node is reached on loopback itself"


def test_who_may_not_publish_gives_no_hints_nor_who_wants_the_group_for_this_node_alone() -> None:
    one = house(strangers=True)
    service, alice = one.link(PUBSUB.public), one.link(ALICE.public)
    peer, stranger = one.link(PEER.public, role="router"), one.link(BOB.public, role="router")
    say(one, alice, ALICE, Join(NEWS, True))
    gives(one, alice, ALICE, hint(FAR))
    say(one, alice, ALICE, Join(NEWS, False))
    assert gives(one, peer, PEER, hint(FAR)) == []
    assert told(one, service) == [True]
    assert gives(one, stranger, BOB, hint(FAR)) == [Reason.NOT_AUTHORISED]


def test_hints_of_who_publishes_only_are_told_when_the_service_takes_part_and_to_uplinks() -> None:
    one = house()
    service, alice, client = one.link(PUBSUB.public), one.link(ALICE.public), one.link(CLIENT.public, role="router")
    up = one.link(UP.public, role="router")
    gives(one, alice, ALICE, hint(FAR))
    assert told(one, up) == [hint(FAR)] and told(one, service) == []
    say(one, service, PUBSUB, encode_inquiry(TakeParts((NEWS,), ("ids",)).inquiry()))
    assert told(one, service) == [hint(FAR)]
    gives(one, client, CLIENT, hint(FAR, router=BOB.public))
    assert told(one, service) == [hint(FAR), hint(FAR, router=BOB.public)]
    one = house(disk=one.disk)
    up, service = one.link(UP.public, role="router"), one.link(PUBSUB.public)
    assert told(one, up) == [hint(FAR), hint(FAR, router=BOB.public)], "also after a restart"
    told(one, service)
    say(one, service, PUBSUB, encode_inquiry(TakeParts((NEWS,), ("whole",)).inquiry()))
    assert told(one, service) == [hint(FAR), hint(FAR, router=BOB.public)]


def test_oldest_hints_of_groups_that_nobody_has_joined_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "UNJOINED_MAX", {AddressSource.HINT: 3, AddressSource.ANYBODY: 1})
    one, groups = house(), [SigningKey(bytes((n, 9)) * 16).public for n in range(4)]
    alice, client = one.link(ALICE.public), one.link(CLIENT.public, role="router")
    for group in groups:
        gives(one, client, CLIENT, hint(FAR, group=group))
        gives(one, alice, ALICE, hint(FAR, group=group))
    say(one, alice, ALICE, Join(groups[1], False))
    for group in groups[2:]:
        gives(one, alice, ALICE, hint(FAR, NEAR, group=group))
    again = house(disk=one.disk)
    kept = {group for group in groups for _ in again.router._hints.of(group)}
    assert kept == set(groups[1:]) and len([*again.router._hints.of(groups[3])]) == 2, "the client's last one, too"
    assert again.router._hints.unjoined(9) == [groups[3], groups[2]]


def test_what_is_no_hint_is_refused() -> None:
    one = house()
    alice = one.link(ALICE.public, size=1 << 16)
    say(one, alice, ALICE, Join(NEWS, False))
    right = encode_hint(hint(FAR), TO_ROUTER)
    assert say(one, alice, ALICE, right[:-1]) == [Reason.MALFORMED]
    assert say(one, alice, ALICE, TO_ROUTER + bytes(HINT_BYTES_MAX)) == [Reason.TOO_LARGE]
    assert say(one, alice, ALICE, TO_SERVICE + right[2:]) == [Reason.UNSUPPORTED]
    assert say(one, alice, ALICE, LeaveAck(NEWS, True)) == []


def test_no_hint_is_lost_when_many_groups_are_told_together() -> None:
    """Hints of more groups than the service's window has room for are told with another SUB."""
    one = house()
    alice = one.link(ALICE.public, messages=512, size=1 << 20)
    groups = [SigningKey(bytes((n, 9)) * 16).public for n in range(100)]
    for group in groups:
        say(one, alice, ALICE, Join(group, False))
        gives(one, alice, ALICE, hint(FAR, group=group))
    service, found = one.link(PUBSUB.public, messages=4, size=1 << 16), set[PublicKey]()
    for _ in range(4):
        found |= {each.group for each in told(one, service) if isinstance(each, Hinted)}
        one.router.settled(service, one.router.links.get(service).outgoing.sent, one.now())  # type: ignore[union-attr]
        for group in groups:
            say(one, service, PUBSUB, JoinAck(group, True))
        one.pass_time(AGAIN_S)
    assert found == set(groups)
