"""The router's own PULL to a named neighbour, for a service of its node (R-C30)."""

from __future__ import annotations

import json
from typing import Any

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, GROUP

from router.core.routing.directory import Neighbour
from router.core.routing.effects import SendOwn
from router.core.routing.limits import Limits
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry, is_inquiry
from router.core.wire.codec import encode
from router.core.wire.control import Join, Pull, decode_control, encode_control
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, open_message, seal_multicast, seal_unicast

PUBSUB, PEER = (SigningKey(bytes((n,)) * 32) for n in (61, 62))
EXPIRY = expiry_min(WALL_S + 600)
WIRES = [seal_multicast(GROUP, b"%d" % n, ttl_s=60, expiry_min=EXPIRY, seen=()) for n in range(3)]
IDS = [message_id(wire) for wire in WIRES]


def house(**more: object) -> tuple[OneRouter, int, int, int]:
    """Return a router and its links to a service, to an app that joined the group, and to another router."""
    services = {bytes(PUBSUB.public): "pubsub"}
    one = OneRouter(Neighbour(PEER.public), services=services, locals=[ALICE.public], **more)  # type: ignore[arg-type]
    service, alice, peer = one.link(PUBSUB.public), one.link(ALICE.public), one.link(PEER.public, role="router")
    join = encode_control(Join(GROUP.public, True))
    one.bring(alice, seal_unicast(ALICE, ME.public, join, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    return one, service, alice, peer


def pull(one: OneRouter, service: int, router: SigningKey, id: MessageId) -> dict[str, Any]:
    said = {"router": router.public.hex(), "group": GROUP.public.hex(), "id": id.hex()}
    body = encode_inquiry(Inquiry("pull", json.dumps(said)))
    one.bring(service, seal_unicast(PUBSUB, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    bodies = [open_message(each.wire).body for each in one.done if isinstance(each, SendOwn) and each.link == service]
    answer = decode_inquiry([body for body in bodies if is_inquiry(body)][-1])
    assert isinstance(answer, Answer)
    found: dict[str, Any] = json.loads(answer.text)
    return found


def test_a_named_router_is_asked_and_its_answer_goes_to_the_subscribers() -> None:
    one, service, _, peer = house()
    assert pull(one, service, PEER, IDS[0]) == {"asked": True}
    assert [decode_control(open_message(wire).body) for wire in one.told(peer)] == [Pull(GROUP.public, IDS[0])]
    carried = seal_unicast(PEER, ME.public, encode([0, WIRES[0]]), ttl_s=0, expiry_min=EXPIRY)
    one.bring(peer, carried)
    one.cycle()
    assert one.accepted()[-1][2] == (ALICE.public,)


def test_nothing_is_asked_for_what_the_index_knows_in_memory_or_on_disk() -> None:
    one, service, _, peer = house()
    one.bring(peer, WIRES[0])
    one.cycle()
    assert pull(one, service, PEER, IDS[0]) == {"asked": False}
    again, service, _, peer = house(disk=one.disk, limits=Limits(seen_recent_max=0))
    pull(again, service, PEER, IDS[0])
    assert again.told(peer) == [], "known on disk alone"
    pull(again, service, PEER, IDS[1])
    assert len(again.told(peer)) == 1


def test_whom_it_may_ask_and_how_often() -> None:
    one, service, _, peer = house(limits=Limits(pulls_asked_per_s=1.0))
    assert "not connected" in pull(one, service, SigningKey(b"n" * 32), IDS[0])["error"]
    assert "not connected" in pull(one, service, ALICE, IDS[0])["error"], "an app is no router"
    assert pull(one, service, PEER, IDS[0]) == {"asked": True}
    assert "limits.pulls_asked_per_s" in pull(one, service, PEER, IDS[1])["error"]
    one.seconds += 1
    assert pull(one, service, PEER, IDS[1]) == {"asked": True}
    assert len(one.told(peer)) == 2
