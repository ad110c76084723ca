"""The router's own PULL to a named neighbour, for a service or an app of its node, and the answers to it (R-C30)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.control.pulls import MISS_COST, WAITING_MAX
from router.core.log.events import HISTORY_ASKED, Noted
from router.core.neighbours.directory import JOIN, Neighbour
from router.core.routing.effects import LookUpPulled, SendOwn
from router.core.routing.limits import CoreLimits, PullLimits
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry, is_inquiry, with_number
from router.core.wire.codec import encode
from router.core.wire.control import Carried, Join, Pull, decode_control, encode_control
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, open_message, seal_multicast, seal_unicast
from router.service.verbs.pull_from import MINUTES_MAX

PUBSUB, PEER, CLIENT, UP = (SigningKey(bytes((n,)) * 32) for n in (61, 62, 63, 64))
EXPIRY = expiry_min(WALL_S + 600)
WIRES = [seal_multicast(GROUP, b"%d" % n, ttl_s=60, expiry_min=EXPIRY, seen=()) for n in range(300)]
IDS = [message_id(wire) for wire in WIRES]


def house(**more: object) -> tuple[OneRouter, int, int, int]:
    """Return a router and its links to a service, to an app that joined the group, and to another router."""
    services = {bytes(PUBSUB.public): "pubsub"}
    client, up = Neighbour(CLIENT.public, grants=frozenset({JOIN})), Neighbour(UP.public, uplink=True)
    one = OneRouter(Neighbour(PEER.public), client, up, services=services, locals=[ALICE.public], **more)  # type: ignore[arg-type]
    service, alice = (one.link(key.public, messages=512, size=1 << 20) for key in (PUBSUB, ALICE))
    peer = one.link(PEER.public, role="router", messages=512, size=1 << 20)
    join(one, alice, ALICE)
    return one, service, alice, peer


def join(one: OneRouter, link: int, source: SigningKey, *, local: bool = True) -> None:
    body = encode_control(Join(GROUP.public, local))
    one.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def pull(
    one: OneRouter, link: int, router: SigningKey, *ids: MessageId, source: SigningKey = PUBSUB, **more: Any
) -> list[str] | str:
    """Let a service or app name missing messages; return the state of each, or the error."""
    said = {"router": router.public.hex(), "group": GROUP.public.hex(), "ids": [id.hex() for id in ids], **more}
    body = encode_inquiry(Inquiry("pull", json.dumps(said)))
    one.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    bodies = [open_message(each.wire).body for each in one.done if isinstance(each, SendOwn) and each.link == link]
    answer = decode_inquiry([body for body in bodies if is_inquiry(body)][-1])
    assert isinstance(answer, Answer)
    found = json.loads(answer.text)
    states: list[str] | str = found.get("states", found.get("error"))
    return states


def pulls(one: OneRouter, link: int) -> list[object]:
    return [decode_control(open_message(wire).body) for wire in one.told(link)]


def bring_carried(one: OneRouter, peer: int, wire: bytes) -> None:
    one.bring(peer, seal_unicast(PEER, ME.public, encode([0, wire]), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def test_a_named_router_is_asked_and_its_answer_goes_to_the_subscribers() -> None:
    one, service, _, peer = house()
    assert pull(one, service, PEER, *IDS[:2]) == ["asked", "asked"]
    assert pulls(one, peer) == [Pull(GROUP.public, id) for id in IDS[:2]]
    bring_carried(one, peer, WIRES[0])
    assert one.accepted()[-1][2] == (ALICE.public,)


def test_requests_that_go_side_by_side_are_answered_by_their_numbers() -> None:
    one, service, _, _ = house()
    for number, ids in ((7, IDS[:1]), (8, IDS[1:3])):
        said = {"router": PEER.public.hex(), "group": GROUP.public.hex(), "ids": [id.hex() for id in ids]}
        body = encode_inquiry(Inquiry("pull", with_number(number, json.dumps(said))))
        one.bring(service, seal_unicast(PUBSUB, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    found = [decode_inquiry(open_message(wire).body) for wire in one.told(service)]
    assert found == [
        Answer(with_number(number, json.dumps({"states": ["asked"] * number_of})).encode())
        for number, number_of in ((7, 1), (8, 2))
    ]


def test_history_goes_to_the_service_that_asked_for_it_alone() -> None:
    """Only the pub/sub service asks for history; a message that it asks for again otherwise goes to all."""
    one, service, alice, peer = house()
    join(one, service, PUBSUB)
    assert pull(one, service, PEER, *IDS[:4], history=[True, True, False, True]) == ["asked"] * 4
    assert pull(one, service, PEER, IDS[3], history=[False]) == ["asked"]
    assert pull(one, alice, PEER, IDS[4], source=ALICE, history=[True]) == ["asked"]
    to: list[set[bytes]] = []
    for wire in WIRES[:6]:
        bring_carried(one, peer, wire)
        to.append(set(one.accepted()[-1][2]))
    all_of_it: set[bytes] = {ALICE.public, PUBSUB.public}
    assert to == [{PUBSUB.public}, {PUBSUB.public}, all_of_it, all_of_it, all_of_it, all_of_it]


def test_what_is_asked_for_as_history_is_logged_once() -> None:
    """Only what has become history by this request is logged, before the message comes."""
    one, service, alice, _ = house()
    join(one, service, PUBSUB)
    pull(one, service, PEER, *IDS[:3], history=[True, False, True])
    pull(one, service, PEER, *IDS[:4], history=[True] * 4)
    pull(one, alice, PEER, IDS[4], source=ALICE, history=[True])
    said = [event for event in one.events if isinstance(event, Noted) and event.event == HISTORY_ASKED]
    assert [event.ids for event in said] == [IDS[0] + IDS[2], IDS[1] + IDS[3]]
    fields = {"service": "router", "router": bytes(PEER.public), "group": bytes(GROUP.public)}
    assert [(event.service, dict(event.fields)) for event in said] == [(ME.public, fields)] * 2


def test_history_that_does_not_come_is_forgotten() -> None:
    one, service, _, peer = house(limits=CoreLimits(pulls=PullLimits(history_open_max=2)))
    join(one, service, PUBSUB)
    pull(one, service, PEER, *IDS[:3], history=[True] * 3)
    bring_carried(one, peer, WIRES[0])
    assert ALICE.public in one.accepted()[-1][2]
    bring_carried(one, peer, WIRES[2])
    assert one.accepted()[-1][2] == (PUBSUB.public,)


def test_an_app_is_told_what_is_in_its_queue() -> None:
    one, service, alice, peer = house()
    one.bring(peer, WIRES[0])
    one.cycle()
    assert pull(one, alice, PEER, *IDS[:2], source=ALICE) == ["owed", "asked"]
    one.router.settled(alice, 3, one.now())  # two answers of the router, and the message
    one.cycle()
    assert pull(one, alice, PEER, IDS[0], source=ALICE) == ["known"]
    assert pull(one, service, PEER, IDS[0]) == ["known"]


@pytest.mark.parametrize("more", [{}, {"expiries": [EXPIRY, EXPIRY]}])
def test_nothing_is_asked_for_what_the_index_knows_in_memory_or_on_disk(more: dict[str, Any]) -> None:
    one, service, _, peer = house()
    one.bring(peer, WIRES[0])
    one.cycle()
    assert pull(one, service, PEER, IDS[0], IDS[1], **more) == ["known", "asked"]
    again, service, _, peer = house(disk=one.disk, limits=CoreLimits(seen_recent_max=0))
    again.told(peer)
    assert pull(again, service, PEER, IDS[0], IDS[2], **more) == ["known", "asked"], "known on disk alone"
    assert pulls(again, peer) == [Pull(GROUP.public, IDS[2])]


def test_whom_it_may_ask_and_how_often() -> None:
    one, service, _, peer = house(limits=CoreLimits(pulls=PullLimits(asked_per_s=1.0)))
    one.told(peer)
    assert pull(one, service, SigningKey(b"n" * 32), IDS[0]) == ["away"]
    assert pull(one, service, ALICE, IDS[0]) == ["away"], "an app is no router"
    assert pull(one, service, PEER, IDS[0], IDS[1]) == ["asked", "later"]
    one.seconds += 1
    assert pull(one, service, PEER, IDS[1]) == ["asked"]
    assert pulls(one, peer) == [Pull(GROUP.public, IDS[0]), Pull(GROUP.public, IDS[1])]


def test_only_so_many_are_open_until_they_come_or_are_given_up() -> None:
    one, service, _, peer = house(limits=CoreLimits(pulls=PullLimits(open_max=2, open_s=10)))
    assert pull(one, service, PEER, *IDS[:3]) == ["asked", "asked", "later"]
    assert pull(one, service, PEER, IDS[0]) == ["asked"], "again, perhaps of another router"
    bring_carried(one, peer, WIRES[0])
    assert pull(one, service, PEER, *IDS[2:4]) == ["asked", "later"], "the first has come"
    one.seconds += 10
    assert pull(one, service, PEER, *IDS[3:5]) == ["asked", "asked"], "the others are given up"


def test_an_app_asks_for_what_it_misses_in_groups_that_it_has_joined() -> None:
    one, _, alice, peer = house(limits=CoreLimits(pulls=PullLimits(open_of_app_max=1)))
    bob = one.link(BOB.public)
    assert pull(one, alice, PEER, *IDS[:2], source=ALICE) == ["asked", "later"]
    assert "join the group first" in pull(one, bob, PEER, IDS[0], source=BOB)
    assert pulls(one, peer) == [Pull(GROUP.public, IDS[0])]


def test_what_cannot_be_read_is_an_error_and_asks_nobody() -> None:
    one, service, _, peer = house()
    wrong: list[dict[str, Any]] = [{"ids": []}, {"ids": [IDS[0].hex()] * 65}, {"ids": ["x"]}, {"group": "00" * 32}]
    for more in (*wrong, {"more": 1}):
        assert "pull: " in pull(one, service, PEER, IDS[0], **more)
    assert pulls(one, peer) == []


def test_a_peers_router_may_not_say_what_it_misses() -> None:
    one, _, _, peer = house()
    one.settled()
    body = encode_inquiry(Inquiry("pull", "{}"))
    one.bring(peer, seal_unicast(PEER, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    [(_, reason, text)] = one.settled()[peer][1]
    assert reason.word == "not-authorised" and "services and apps" in text


def kept_house(limits: PullLimits | None = None) -> tuple[OneRouter, int, int, int]:
    """Return the router of `house`, which keeps all `WIRES` for the app."""
    one, service, alice, peer = house(limits=CoreLimits(pulls=limits or PullLimits()))
    one.bring(service, *WIRES)
    one.cycle()
    return one, service, alice, peer


def asked(one: OneRouter, link: int, source: SigningKey, ids: Sequence[MessageId]) -> int:
    """Send PULLs for these over a link; return how many were looked up."""
    one.done.clear()
    bodies = [encode_control(Pull(GROUP.public, id)) for id in ids]
    if bodies:
        one.bring(link, *[seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY) for body in bodies])
    one.cycle()
    return len([one for one in one.done if isinstance(one, LookUpPulled)])


def test_an_app_of_another_node_is_answered_slowly() -> None:
    one, *_ = kept_house(PullLimits(per_s=10, routers_per_s=100))
    client = one.link(CLIENT.public, role="app", owner=False, messages=512, size=1 << 20)
    join(one, client, CLIENT)
    assert asked(one, client, CLIENT, IDS) == 10


def test_routers_are_answered_as_fast_as_apps_of_this_node_and_peers_only_what_is_agreed() -> None:
    one, _, alice, peer = kept_house(PullLimits(per_s=10, routers_per_s=100))
    client = one.link(CLIENT.public, role="router", messages=512, size=1 << 20)
    join(one, client, CLIENT)
    assert asked(one, alice, ALICE, IDS) == 100 and asked(one, client, CLIENT, IDS) == 100
    assert asked(one, peer, PEER, IDS[:1]) == 0, "no right to join, and nothing is agreed"
    one.router.directory.agreements.agree(PUBSUB.public, PEER.public, [GROUP.public], WALL_S + 60, WALL_S)
    assert asked(one, peer, PEER, IDS) == 100


def test_an_uplink_is_answered_what_is_joined_there() -> None:
    one, _, alice, _ = house()
    up = one.link(UP.public, role="router")
    assert asked(one, up, UP, IDS[:1]) == 0
    join(one, alice, ALICE, local=False)
    assert asked(one, up, UP, IDS[:1]) == 1


def test_what_does_not_fit_the_free_window_is_not_answered_and_not_logged() -> None:
    one, service, _, _ = house()
    slow = one.link(CLIENT.public, role="router", messages=8, size=1000)
    large = seal_multicast(GROUP, bytes(70_000), ttl_s=60, expiry_min=EXPIRY, seen=())
    for wire in (large, WIRES[0]):
        one.bring(service, wire)
        one.cycle()
    one.events.clear()
    one.told(slow)
    for wire, fits in ((WIRES[0], True), (large, False)):
        [found] = [(each, i) for each in one.disk.parcels.values() for i in range(each.count) if each.wire(i) == wire]
        one.router.pulls.looked_up(LookUpPulled(slow, GROUP.public, message_id(wire)), found, one.now())
        one.cycle()
        assert pulls(one, slow) == [Carried(wire)] * fits
    assert len([each for each in one.events if getattr(each, "event", "") == "pulled"]) == 1


def test_a_pull_for_what_is_not_here_costs_its_asker_more() -> None:
    one, _, alice, _ = house(limits=CoreLimits(pulls=PullLimits(routers_per_s=2.0 * MISS_COST)))
    assert asked(one, alice, ALICE, IDS[:5]) == 2, "two misses are all that it has"
    one.seconds += 0.5
    assert asked(one, alice, ALICE, ()) == 1, "the others wait"


def test_an_id_is_looked_up_in_the_minutes_that_are_named() -> None:
    one, service, _, peer = house()
    one.bring(peer, WIRES[0])
    one.cycle()
    again, service, _, peer = house(disk=one.disk, limits=CoreLimits(seen_recent_max=0))
    for first, count, state in ((EXPIRY - 3, 4, "known"), (EXPIRY - 3, 3, "asked"), (EXPIRY, 1, "known")):
        assert pull(again, service, PEER, IDS[0], expiries=[first], minutes=[count]) == [state]
    assert "pull: " in pull(again, service, PEER, IDS[0], expiries=[EXPIRY], minutes=[MINUTES_MAX + 1])


LARGE = seal_multicast(GROUP, bytes(500_000), ttl_s=60, expiry_min=EXPIRY, seen=())


def storm(one: OneRouter, link: int, *wires: bytes, source: SigningKey = CLIENT) -> tuple[int, int]:
    """Send one PULL for each message; return how many were read and how many carried."""
    read = carried = 0
    for wire in wires:
        read += asked(one, link, source, [message_id(wire)])
        carried += len(one.told(link))
    return read, carried


def pulled_house(
    limits: PullLimits | None = None, *, role: str = "router", size: int = 1 << 20
) -> tuple[OneRouter, int]:
    """Return a router that keeps `LARGE` and the first of `WIRES` for an app, and the link of a client in the group."""
    one, service, *_ = house(limits=CoreLimits(pulls=limits or PullLimits()))
    for wire in (LARGE, *WIRES[:4]):
        one.bring(service, wire)
        one.cycle()
    client = one.link(CLIENT.public, role=role, owner=False, messages=8, size=size)
    join(one, client, CLIENT)
    one.told(client)
    return one, client


def test_pulls_of_one_who_settles_nothing_read_and_sign_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one, client = pulled_house(PullLimits(again_s=0))
    signed = []

    def sealed(*args: Any, **more: Any) -> bytes:
        signed.append(args)
        return seal_unicast(*args, **more)

    monkeypatch.setattr("router.core.control.speaker.seal_unicast", sealed)
    for n in range(200):
        storm(one, client, WIRES[n % 4])
    held = 8 + 64 - 1  # the window and its slack; the answer to the JOIN is in flight already
    assert storm(one, client, WIRES[0]) == (0, 0), "nothing is read for a full window"
    assert len(signed) == held, "nothing is signed for a full window"
    link = one.router.links.get(client)
    assert link is not None and not one.router._kernel.speaker.say(link, Pull(GROUP.public, IDS[0]), one.now())
    assert len(signed) == held, "nor is any other word"


def test_a_large_message_is_carried_only_if_it_fits_and_is_not_copied_else(monkeypatch: pytest.MonkeyPatch) -> None:
    one, client = pulled_house(PullLimits(again_s=0), size=400_000)
    assert storm(one, client, WIRES[0]) == (1, 1)
    monkeypatch.setattr("router.core.routing.parcel.Parcel.wire", lambda *_: pytest.fail("copied"))
    assert storm(one, client, LARGE) == (1, 0)


@pytest.mark.parametrize(("more", "carried"), [(150, 0), (200, 1)])
def test_a_message_that_is_too_long_for_the_asker_when_it_is_carried_is_not_carried(more: int, carried: int) -> None:
    """It would close the link, and ask again on the next one."""
    one, client = pulled_house()
    one.router.link_down(client, one.now())
    narrow = one.link(CLIENT.public, role="router", messages=8, size=1 << 20, frame_bytes=len(LARGE) + more)
    assert storm(one, narrow, LARGE) == (1, carried)


def test_what_is_read_for_pulls_is_charged_in_bytes_whether_it_fits_or_not() -> None:
    one, client = pulled_house(PullLimits(again_s=0, routers_bytes_per_s=100_000), size=400_000)
    assert storm(one, client, *[LARGE] * 9) == (1, 0)
    one.seconds += 4.0
    assert storm(one, client, WIRES[0]) == (0, 0), "515 kB of debt, less 400 kB"
    one.seconds += 1.2
    assert storm(one, client, WIRES[1]) == (1, 0), "the large one that waits"
    one.seconds += 5.2
    assert asked(one, client, CLIENT, ()) == len(one.told(client)) == 2


def test_an_app_of_another_node_is_charged_at_its_own_rate() -> None:
    one, client = pulled_house(PullLimits(again_s=0, bytes_per_s=1000), role="app")
    assert storm(one, client, LARGE, WIRES[0]) == (1, 1)


def test_the_same_message_is_carried_again_only_after_some_seconds_and_on_a_new_link() -> None:
    one, client = pulled_house()
    assert storm(one, client, WIRES[0], WIRES[1], WIRES[0]) == (2, 2)
    one.seconds += 4.9
    assert storm(one, client, WIRES[0]) == (0, 0)
    one.seconds += 0.2
    assert storm(one, client, WIRES[0]) == (1, 1)
    one.router.link_down(client, one.now())
    again = one.link(CLIENT.public, role="router", owner=False, messages=8, size=1 << 20)
    assert storm(one, again, WIRES[0]) == (1, 1)


def test_all_routers_that_the_operator_does_not_know_share_a_rate_of_bytes() -> None:
    one, service, *_ = house(limits=CoreLimits(pulls=PullLimits(unknown_bytes_per_s=1000)))
    one.bring(service, LARGE)
    one.cycle()
    met = [SigningKey(bytes((n,)) * 32) for n in (71, 72)]
    for key in met:
        one.router.directory.agreements.agree(PUBSUB.public, key.public, [GROUP.public], WALL_S + 60, WALL_S)
    links = [one.link(key.public, role="router", size=1 << 20) for key in met]
    one.done.clear()
    assert [storm(one, link, LARGE, source=key) for link, key in zip(links, met, strict=True)] == [(1, 1), (0, 0)]


def test_a_new_connection_brings_no_new_allowance_and_little_is_saved_up() -> None:
    one, client = pulled_house(PullLimits(again_s=0, routers_bytes_per_s=8.0 * (1 << 20)))
    assert storm(one, client, *[LARGE] * 9) == (3, 2), "a megabyte is saved up; the third does not fit"
    one.router.link_down(client, one.now())
    again = one.link(CLIENT.public, role="router", owner=False, messages=8, size=1 << 20)
    assert storm(one, again, LARGE) == (0, 0)
    one.seconds += 0.5
    assert storm(one, again, LARGE) == (1, 1)


# -- PULLs that wait ------------------------------------------------------------------------------------------

MANY = [seal_multicast(GROUP, bytes((n,)) * 100_000, ttl_s=600, expiry_min=EXPIRY, seen=()) for n in range(64)]


def house_with_many(limits: PullLimits | None = None) -> tuple[OneRouter, dict[str, int]]:
    """Return a router that keeps `MANY` for an app that is away, and the links of those who ask for them."""
    one, service, alice, peer = house(limits=CoreLimits(pulls=limits or PullLimits()))
    one.router.link_down(alice, one.now())
    for wire in (*MANY, *WIRES):
        one.bring(service, wire)
        one.cycle()
    client = one.link(CLIENT.public, role="router", messages=512, size=1 << 20)
    join(one, client, CLIENT)
    one.router.directory.agreements.agree(PUBSUB.public, PEER.public, [GROUP.public], WALL_S + 999, WALL_S)
    return one, {"client": client, "service": service, "peer": peer}


def carried_in(one: OneRouter, link: int, seconds: float) -> list[bytes]:
    """Return what is carried over a link that settles all it is sent, ten times a second."""
    found: list[bytes] = []
    for _ in range(int(seconds * 10)):
        found += [said.message_wire for said in pulls(one, link) if isinstance(said, Carried)]
        one.router.settled(link, one.router.links.get(link).outgoing.sent, one.now())  # type: ignore[union-attr]
        one.pass_time(0.1)
    return found


@pytest.mark.parametrize(("who", "source"), [("client", CLIENT), ("service", PUBSUB)])
def test_of_pulls_beyond_rate_and_window_none_is_lost(who: str, source: SigningKey) -> None:
    """An honest asker has 64 open, and would wait for 5 s before it asks again, an app for 30 s."""
    one, links = house_with_many(PullLimits(routers_bytes_per_s=4.0 * (1 << 20)))
    asked(one, links[who], source, [message_id(wire) for wire in MANY])
    assert carried_in(one, links[who], 4.0) == MANY


def test_one_pass_over_pulls_reads_what_the_rate_allows_and_no_more() -> None:
    one, links = house_with_many()
    ids = [message_id(wire) for wire in MANY]
    assert asked(one, links["client"], CLIENT, ids) == 11, "a megabyte that is saved up, and one message more"


def test_apps_and_services_of_this_node_may_ask_again_at_once() -> None:
    """A service sends one message on to several neighbours, one after the other."""
    one, service, *_ = kept_house()
    assert storm(one, service, WIRES[0], WIRES[0], source=PUBSUB) == (2, 2)


def test_few_pulls_of_one_link_wait_and_those_of_other_links_have_turns() -> None:
    one, links = house_with_many(PullLimits(routers_per_s=1))
    assert asked(one, links["client"], CLIENT, IDS) == asked(one, links["peer"], PEER, IDS[:3]) == 1
    looked_up: list[int] = []
    for _ in range(WAITING_MAX + 9):
        one.seconds += 1
        asked(one, links["client"], CLIENT, ())
        looked_up += [each.link for each in one.done if isinstance(each, LookUpPulled)]
    assert looked_up.count(links["client"]) == WAITING_MAX and looked_up[:4].count(links["peer"]) == 2


def test_who_has_no_right_any_more_or_is_gone_is_read_nothing_for_what_waits() -> None:
    one, links = house_with_many(PullLimits(routers_per_s=1))
    ids = [message_id(wire) for wire in MANY]
    assert asked(one, links["client"], CLIENT, ids) == 1
    one.router.neighbours_changed([Neighbour(CLIENT.public)], one.now())
    one.seconds += 10
    assert asked(one, links["client"], CLIENT, ()) == 0
    assert asked(one, links["service"], PUBSUB, ids) == 1
    one.router.link_down(links["service"], one.now())
    one.seconds += 10
    again = one.link(PUBSUB.public, messages=512, size=1 << 20)
    assert asked(one, again, PUBSUB, ()) == 0
