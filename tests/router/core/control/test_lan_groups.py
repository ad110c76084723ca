"""LAN neighbours: both join their shared groups at each other, and messages that one brings are not passed on
(R-C25)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from rigs.one_router import ME, WALL_S, OneRouter
from rigs.plain_store import Disk
from samples.core import ALICE, GROUP

from router.core.control import upstream
from router.core.log.events import Outward, RouterChange
from router.core.neighbours.directory import JOIN, RELAY, STORE, Neighbour, Standing
from router.core.routing.limits import CoreLimits
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.control import Join, JoinAck, Leave, decode_control, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import NOT_SHARED, Reason

DISCOVERY, PUBSUB, NEAR, NEXT, UP, EDGE, PEER = (SigningKey(bytes((n,)) * 32) for n in range(71, 78))
CATS = SigningKey(b"c" * 32)
EXPIRY = expiry_min(WALL_S + 40 * 3600)
DAY_S = 86_400
OTHERS = (
    Neighbour(UP.public, uplink=True), Neighbour(EDGE.public, grants=frozenset({JOIN, STORE, RELAY})),
    Neighbour(PEER.public),
)  # fmt: skip


def node(*known: Neighbour, disk: Disk | None = None, seconds: float = 0.0, lan_keep_s: int = DAY_S) -> OneRouter:
    services = {bytes(DISCOVERY.public): "discovery", bytes(PUBSUB.public): "pubsub"}
    limits = replace(CoreLimits(), lan_keep_s=lan_keep_s)
    return OneRouter(*known, services=services, locals=[ALICE.public], disk=disk, seconds=seconds, limits=limits)


def said(one: OneRouter, link: int) -> list[object]:
    """Return the control messages sent to a neighbour since the last call."""
    return [decode_control(open_message(wire).body) for wire in one.told(link)]


def tell(one: OneRouter, link: int, key: SigningKey, body: bytes) -> None:
    one.bring(link, seal_unicast(key, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    one.settled()


def say(one: OneRouter, link: int, key: SigningKey, *controls: Join | JoinAck | Leave) -> None:
    for control in controls:
        tell(one, link, key, encode_control(control))


def agree(one: OneRouter, link: int, *groups: SigningKey, key: SigningKey = NEAR, lan: bool = True) -> None:
    until_s = one.now().wall_s + 7200
    asked = {"key": key.public.hex(), "groups": [each.public.hex() for each in groups], "until_s": until_s, "lan": lan}
    tell(one, link, DISCOVERY, encode_inquiry(Inquiry("agree", json.dumps(asked))))


def bring(one: OneRouter, link: int, group: SigningKey, body: bytes = b"hello") -> list[Reason]:
    """Return the reasons for which messages were refused."""
    one.bring(link, seal_multicast(group, body, ttl_s=2 * DAY_S, expiry_min=EXPIRY, seen=()))
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def recipients(one: OneRouter) -> set[bytes]:
    return set(one.accepted()[-1][2])


def shared(*known: Neighbour, lan_keep_s: int = DAY_S) -> tuple[OneRouter, int, int, int]:
    """Return a node whose app alice wants a group shared with a LAN neighbour, which has joined; and the links."""
    one = node(*known, lan_keep_s=lan_keep_s)
    alice, discovery = one.link(ALICE.public), one.link(DISCOVERY.public)
    say(one, alice, ALICE, Join(GROUP.public, False))
    agree(one, discovery, GROUP)
    near = one.link(NEAR.public, role="router")
    say(one, near, NEAR, JoinAck(GROUP.public, True), Join(GROUP.public, True))
    assert one.router.groups.members(GROUP.public) == (ALICE.public, NEAR.public)
    said(one, near)
    return one, alice, discovery, near


def test_it_joins_at_its_lan_neighbour_until_that_has_agreed_too() -> None:
    one = node()
    alice, discovery = one.link(ALICE.public), one.link(DISCOVERY.public)
    say(one, alice, ALICE, Join(GROUP.public, False), Join(CATS.public, True))
    near = one.link(NEAR.public, role="router")
    assert one.closed() == [(near, "not-authorised")], "nobody yet"
    agree(one, discovery, GROUP, CATS)
    near = one.link(NEAR.public, role="router")
    assert said(one, near) == [Join(GROUP.public, True)], "of what is wanted here"
    say(one, near, NEAR, JoinAck(GROUP.public, False))
    one.pass_time(4.5)
    assert said(one, near) == []
    one.pass_time(0.5)
    assert said(one, near) == [Join(GROUP.public, True)], "every 5 s"
    say(one, near, NEAR, JoinAck(GROUP.public, False), Join(GROUP.public, True))
    assert said(one, near) == [JoinAck(GROUP.public, True), Join(GROUP.public, True)], "at once when it has agreed"
    say(one, near, NEAR, JoinAck(GROUP.public, True))
    for _ in range(20):
        one.pass_time(1)
    assert said(one, near) == []


def test_few_joins_are_open_there_also_when_many_were_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "OPEN_MAX", 2)
    one = node()
    alice, discovery = one.link(ALICE.public), one.link(DISCOVERY.public)
    groups = [SigningKey(bytes((n,)) * 32) for n in range(1, 6)]
    say(one, alice, ALICE, *[Join(each.public, False) for each in groups])
    agree(one, discovery, *groups)
    near = one.link(NEAR.public, role="router", messages=64, size=1 << 16)

    def answer(*, success: bool) -> int:
        joins = [each.group for each in said(one, near) if isinstance(each, Join)]
        say(one, near, NEAR, *[JoinAck(each, success) for each in joins])
        return len(joins)

    assert [answer(success=False) for _ in range(4)] == [2, 2, 1, 0]
    one.pass_time(upstream.JOIN_AGAIN_S)
    assert [answer(success=True) for _ in range(4)] == [2, 2, 1, 0], "others follow its answers"


def test_it_joins_and_leaves_there_as_the_group_is_wanted_or_not() -> None:
    one, alice, discovery, near = shared()
    say(one, alice, ALICE, Leave(GROUP.public))
    assert said(one, near) == [Leave(GROUP.public)]
    assert bring(one, near, GROUP) == [Reason.NO_SUBSCRIBERS]
    assert said(one, near) == [Leave(GROUP.public)], "who did not hear it is told again"
    say(one, alice, ALICE, Join(GROUP.public, False))
    assert said(one, near) == [Join(GROUP.public, True)]
    agree(one, discovery, CATS)
    assert said(one, near) == [JoinAck(GROUP.public, False), Leave(GROUP.public)]
    assert one.router.groups.members(GROUP.public) == (ALICE.public,)


def test_only_agreed_groups_may_be_joined_and_only_locally() -> None:
    one, _, discovery, near = shared(*OTHERS)
    up = one.link(UP.public, role="router")
    assert said(one, up) == [Join(GROUP.public, False)]
    say(one, near, NEAR, Join(CATS.public, True), Join(GROUP.public, False))
    assert said(one, near) == [JoinAck(CATS.public, False), JoinAck(GROUP.public, True)]
    subscription = one.router.groups.get(GROUP.public, NEAR.public)
    assert subscription is not None and subscription.local and subscription.durable
    agree(one, discovery, CATS, key=NEXT, lan=False)
    next_ = one.link(NEXT.public, role="router")
    say(one, next_, NEXT, Join(CATS.public, True))
    assert said(one, next_) == [JoinAck(CATS.public, False)], "what was agreed elsewhere than on a LAN gives no JOIN"


def test_what_is_published_here_goes_to_lan_neighbours_and_what_is_brought_does_not() -> None:
    one, alice, discovery, near = shared(*OTHERS)
    up, edge, peer = (one.link(key.public, role="router") for key in (UP, EDGE, PEER))
    agree(one, discovery, GROUP, key=NEXT)
    next_ = one.link(NEXT.public, role="router")
    say(one, next_, NEXT, Join(GROUP.public, True))
    say(one, edge, EDGE, Join(GROUP.public, False))
    assert bring(one, alice, GROUP, b"mine") == []
    assert recipients(one) == {NEAR.public, NEXT.public, EDGE.public, UP.public}
    assert bring(one, edge, GROUP, b"a client's") == []
    assert recipients(one) == {ALICE.public, NEAR.public, NEXT.public, UP.public}
    for link, body in ((near, b"a LAN neighbour's"), (up, b"an uplink's"), (peer, b"another router's")):
        assert bring(one, link, GROUP, body) == []
        assert recipients(one) == {ALICE.public, EDGE.public}, body
    pubsub = one.link(PUBSUB.public)
    say(one, pubsub, PUBSUB, Join(GROUP.public, True))
    assert bring(one, near, GROUP, b"overlay") == []
    assert recipients(one) == {ALICE.public, EDGE.public, PUBSUB.public}
    assert bring(one, near, CATS) == [NOT_SHARED]


def test_a_lan_neighbours_subscription_is_not_wanted_upstream_and_keeps_nothing_here() -> None:
    one, alice, _, _ = shared(*OTHERS)
    up = one.link(UP.public, role="router")
    say(one, alice, ALICE, Leave(GROUP.public))
    assert Leave(GROUP.public) in said(one, up) and not one.router.groups.is_wanted(GROUP.public)
    assert bring(one, alice, GROUP) == [] and recipients(one) == {NEAR.public, UP.public}
    say(one, alice, ALICE, Join(GROUP.public, True))
    assert bring(one, alice, GROUP, b"two") == [] and recipients(one) == {NEAR.public}, "alice's JOIN makes it local"


@pytest.mark.parametrize("crash", [False, True])
def test_while_it_is_away_its_queue_and_what_was_agreed_are_kept(crash: bool) -> None:
    one, alice, _, near = shared()
    one.router.link_down(near, one.now())
    one.cycle()
    assert bring(one, alice, GROUP, b"while away") == [] and recipients(one) == {NEAR.public}
    one.pass_time(3 * 3600)
    one.router.lapse(one.now())
    one.cycle()
    if crash:
        one = node(disk=one.disk, seconds=one.seconds)
        alice = one.link(ALICE.public)
        assert bring(one, alice, GROUP, b"after a start") == [] and recipients(one) == {NEAR.public}
    near = one.link(NEAR.public, role="router")
    assert not one.closed() and one.router.links.standing_of(NEAR.public) is Standing.MET
    assert open_message(one.handed(near)[0]).body == b"while away"
    assert said(one, near) == [Join(GROUP.public, True)]
    assert bring(one, near, GROUP, b"back") == []
    one.pass_time(7199)
    assert one.router.links.to(NEAR.public) is not None
    one.pass_time(1)
    assert one.closed() == [(near, "not-authorised")], "two hours after its return, unless services agree again"


def test_what_is_kept_ends_when_it_has_been_away_for_too_long() -> None:
    one, alice, _, near = shared(lan_keep_s=600)
    one.router.link_down(near, one.now())
    bring(one, alice, GROUP)
    for seconds, kept in ((600, True), (1, False)):
        one.pass_time(seconds)
        one.router.lapse(one.now())
        one.cycle()
        one.clear()
        assert one.router.directory.agreements.is_met(NEAR.public) is kept
        assert (NEAR.public in one.router.queues.by_recipient) is kept
        assert (NEAR.public in one.router.groups.members(GROUP.public)) is kept
    ends = [(each.event, each.reason) for each in one.events if isinstance(each, Outward)]
    assert ends[-1] == ("dropped", Reason.LEFT)
    later = node(disk=one.disk, seconds=one.seconds)
    assert not later.router.directory.agreements.is_met(NEAR.public)
    assert later.router.groups.members(GROUP.public) == (ALICE.public,)


def test_what_waits_for_it_is_still_handed_over_when_less_is_agreed() -> None:
    one = node()
    alice, discovery = one.link(ALICE.public), one.link(DISCOVERY.public)
    say(one, alice, ALICE, Join(GROUP.public, False), Join(CATS.public, False))
    agree(one, discovery, GROUP, CATS)
    near = one.link(NEAR.public, role="router", messages=1)
    say(one, near, NEAR, Join(GROUP.public, True))
    bodies = [b"%d" % number for number in range(3)]
    for body in bodies:
        assert bring(one, alice, GROUP, body) == []
    agree(one, discovery, CATS)
    assert bring(one, alice, GROUP, b"too late") == [Reason.NO_SUBSCRIBERS]
    got = []
    for _ in range(20):
        got += [open_message(wire).body for wire in one.handed(near)]
        one.router.settled(near, one.router.links.to(NEAR.public).outgoing.sent, one.now())  # type: ignore[union-attr]
        one.cycle()
    assert got == bodies


@pytest.mark.parametrize(
    "entry",
    [
        Neighbour(NEAR.public, uplink=True),
        Neighbour(NEAR.public, grants=frozenset({JOIN})),
        Neighbour(NEAR.public, blocked=True),
    ],
    ids=["uplink", "client", "blocked"],
)
def test_the_configuration_beats_what_was_agreed(entry: Neighbour) -> None:
    one, _, _, near = shared()
    one.router.neighbours_changed([entry], one.now())
    one.cycle()
    assert not one.router.directory.is_lan(NEAR.public, GROUP.public)
    if entry.blocked:
        assert one.closed() == [(near, "not-authorised")]
        assert one.router.groups.members(GROUP.public) == (ALICE.public,)
    one.router.neighbours_changed([Neighbour(NEAR.public)], one.now())
    one.cycle()
    assert one.router.directory.is_lan(NEAR.public, GROUP.public), "a peer without rights is a LAN neighbour, too"


def test_the_log_tells_who_shares_how_much() -> None:
    one, _, discovery, _ = shared()
    agree(one, discovery, GROUP)
    agree(one, discovery, GROUP, CATS)
    agree(one, discovery, CATS, key=NEXT, lan=False)
    agree(one, discovery)
    told = [dict(each.fields) for each in one.events if isinstance(each, RouterChange) and each.event == "met"]
    assert told == [
        {"peer": NEAR.public, "groups": 1, "lan": 1},
        {"peer": NEAR.public, "groups": 2, "lan": 2},
        {"peer": NEXT.public, "groups": 1, "lan": 0},
        {"peer": NEAR.public, "groups": 0, "lan": 0},
    ], "and nothing when it is only renewed"


def test_a_key_of_this_node_is_no_neighbour() -> None:
    one, _, discovery, _ = shared()
    agree(one, discovery, GROUP, key=ALICE)
    agree(one, discovery, GROUP, key=ME)
    assert not any(one.router.directory.agreements.is_met(key.public) for key in (ALICE, ME))
