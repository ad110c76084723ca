"""A revoked right: everything that depends on it ends at once, on a running node and at its next start."""

from __future__ import annotations

from rigs.one_router import ME, WALL_S, OneRouter
from rigs.plain_store import Disk
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import RouterChange
from router.core.neighbours.directory import JOIN, RELAY, STORE, WHY, Neighbour, Standing
from router.core.routing.routes import Route
from router.core.wire.control import Control, Join, JoinAck, Leave, decode_control, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

CLIENT, UP, FAR = (SigningKey(bytes((n,)) * 32) for n in (81, 82, 83))
EXPIRY = expiry_min(WALL_S + 600)
ALL = frozenset({JOIN, STORE, RELAY})
UPLINK = Neighbour(UP.public, uplink=True)


def client(*grants: str, blocked: bool = False) -> Neighbour:
    return Neighbour(CLIENT.public, "client", frozenset(grants), blocked=blocked)


def say(one: OneRouter, link: int, source: SigningKey, control: Control) -> None:
    one.bring(link, seal_unicast(source, ME.public, encode_control(control), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def told(one: OneRouter, link: int) -> list[Control]:
    return [decode_control(open_message(wire).body) for wire in one.told(link)]


def house(disk: Disk | None = None) -> tuple[OneRouter, int]:
    """Return a client with all rights that has joined, an uplink, a local publisher; and the client's link."""
    one = OneRouter(client(*ALL), UPLINK, locals={ALICE.public, BOB.public}, disk=disk)
    number = one.link(CLIENT.public, role="router")
    say(one, number, CLIENT, Join(GROUP.public, False))
    one.told(number)
    return one, number


def configure(one: OneRouter, *neighbours: Neighbour) -> None:
    one.router.neighbours_changed([*neighbours, UPLINK], one.now())
    one.cycle()
    one.clear()


def publish(one: OneRouter, body: bytes = b"") -> None:
    link = one.router.links.to(ALICE.public)
    number = link.id if link is not None else one.link(ALICE.public)
    one.bring(number, seal_multicast(GROUP, body, ttl_s=300, expiry_min=EXPIRY))
    one.cycle()


def send(one: OneRouter, body: bytes = b"") -> None:
    """Send a message from a local app to the client."""
    link = one.router.links.to(BOB.public)
    number = link.id if link is not None else one.link(BOB.public)
    one.bring(number, seal_unicast(BOB, CLIENT.public, body, ttl_s=300, expiry_min=EXPIRY))
    one.cycle()


def states(one: OneRouter, event: str) -> list[dict[str, object]]:
    return [dict(one.fields) for one in one.events if isinstance(one, RouterChange) and one.event == event]


def owed(one: OneRouter) -> int:
    queue = one.router.queues.by_recipient.get(CLIENT.public)
    return queue.total.messages if queue is not None else 0


def ends(one: OneRouter) -> list[str]:
    """Return the ends of accepted messages."""
    return [event for event, _ in one.outward() if event not in ("forwarded", "deferred")]


# -- join --------------------------------------------------------------------------------------------------------


def test_who_may_no_longer_join_is_in_no_group_at_once() -> None:
    """The key's open link stays, as a mere peer's; the key is told that it is out, the uplink is left, and the log says
    why."""
    one, number = house()
    up = one.link(UP.public, role="router", dialled=True)
    told(one, up)
    configure(one, client(WHY))
    assert not list(one.router.groups) and not one.disk.groups
    assert told(one, number) == [JoinAck(GROUP.public, False)]
    [leave] = states(one, "leave")
    assert leave == {"subscriber": CLIENT.public, "group": GROUP.public, "because": "not-authorised"}
    link = one.router.links.get(number)
    assert link is not None and link.standing is Standing.PEER and not one.closed()
    publish(one)
    assert one.handed(number) == [] and owed(one) == 0
    say(one, number, CLIENT, Join(GROUP.public, False))
    assert not list(one.router.groups)


def test_the_uplink_is_left_when_the_last_who_wanted_the_group_may_not() -> None:
    one, _ = house()
    up = one.link(UP.public, role="router", dialled=True)
    assert told(one, up) == [Join(GROUP.public, False)]
    configure(one, client(STORE, RELAY))
    assert told(one, up) == [Leave(GROUP.public)]


def test_what_waits_for_a_reader_who_may_not_read_ends() -> None:
    one, number = house()
    one.router.link_down(number, one.now())
    publish(one)
    assert owed(one) == 1
    configure(one, client(STORE, RELAY))
    assert owed(one) == 0 and ends(one) == ["dropped"]


def test_each_change_of_rights_is_an_event_with_the_limits_in_force() -> None:
    """The last `config` event of a log counts as the limits of its router; names and addresses are no rights."""
    one, _ = house()
    one.router.begin(one.now())
    configure(one, client(STORE, WHY))
    configure(one, Neighbour(CLIENT.public, "renamed", frozenset({STORE, WHY}), urls=("tls://far:1",)))
    configure(one, client(STORE, blocked=True))
    configure(one)
    first, *changes = states(one, "config")
    assert [{name: row[name] for name in first} for row in changes] == [first] * 3
    assert [{name: value for name, value in row.items() if name not in first} for row in changes] == [
        {"peer": CLIENT.public, "grants": "store,why", "revoked": "join,relay", "uplink": False, "blocked": False,
         "removed": False},
        {"peer": CLIENT.public, "grants": "", "revoked": "store,why", "uplink": False, "blocked": True,
         "removed": False},
        {"peer": CLIENT.public, "grants": "", "revoked": "", "uplink": False, "blocked": False, "removed": True},
    ]  # fmt: skip


# -- store -------------------------------------------------------------------------------------------------------


def test_without_store_the_queue_of_one_who_is_away_ends_and_none_is_kept_any_more() -> None:
    one, number = house()
    one.router.link_down(number, one.now())
    publish(one)
    send(one)
    configure(one, client(JOIN, RELAY))
    assert owed(one) == 0 and ends(one) == ["dropped"] * 2 and one.router.groups.members(GROUP.public)
    publish(one, b"more")
    send(one, b"more")
    assert owed(one) == 0 and one.accepted()[-1][2] == (UP.public,), "the default route may know where it is"
    number = one.link(CLIENT.public, role="router")
    publish(one, b"now it is here")
    assert len(one.handed(number)) == 1
    one.router.link_down(number, one.now())
    one.cycle()
    one.clear()
    assert owed(one) == 0, "what it has not settled does not wait for it"


def test_who_has_no_right_left_but_why_loses_its_queue_too() -> None:
    one, number = house()
    one.router.link_down(number, one.now())
    publish(one)
    send(one)
    configure(one, client(WHY))
    assert owed(one) == 0 and ends(one) == ["dropped"] * 2


# -- relay -------------------------------------------------------------------------------------------------------


def test_without_relay_nobody_is_reached_behind_it() -> None:
    one, number = house()
    one.bring(number, seal_unicast(FAR, ALICE.public, b"", ttl_s=300, expiry_min=EXPIRY))
    one.cycle()
    assert [route.neighbour for route in one.router.routes] == [CLIENT.public]
    configure(one, client(JOIN, STORE))
    assert not list(one.router.routes) and not one.disk.routes
    assert states(one, "route_del") == [{"destination": FAR.public, "neighbour": CLIENT.public}]


# -- blocked and removed -----------------------------------------------------------------------------------------


def test_who_is_blocked_or_removed_is_gone_in_the_same_moment() -> None:
    for now_known, cause in (((client(*ALL, blocked=True),), "blocked"), ((), "left")):
        one, number = house()
        one.router.routes.learn(Route(FAR.public, CLIENT.public, WALL_S + 60), WALL_S)
        last = seal_unicast(FAR, BOB.public, b"", ttl_s=300, expiry_min=EXPIRY)
        again = seal_unicast(CLIENT, ME.public, encode_control(Join(GROUP.public, False)), ttl_s=0, expiry_min=EXPIRY)
        one.bring(number, last, again)  # verified, and decided after the configuration has changed
        configure(one, *now_known)
        assert one.closed() == [(number, "not-authorised")] and one.router.links.get(number) is None
        assert [leave["because"] for leave in states(one, "leave")] == [cause]
        assert not list(one.router.groups) and not list(one.router.routes) and not one.disk.away
        assert ("link_down" in one.states()) and owed(one) == 0
        assert one.accepted() == [], "nor is anything heard that came before and was still to be decided"
        assert [reason for _, reason, _ in one.turned()] == [Reason.NOT_AUTHORISED] * len(one.turned())


def test_one_who_would_be_a_stranger_now_comes_as_one() -> None:
    one, number = house()
    one.router.directory.accept_strangers = True
    configure(one)
    assert one.closed() == [(number, "shutdown")] and one.router.links.get(number) is None
    again = one.router.links.get(one.link(CLIENT.public, role="router"))
    assert again is not None and again.standing is Standing.STRANGER


def test_who_may_join_only_now_has_to_ask_again() -> None:
    """A router asks for its groups at each link-up; one that was refused does not ask again before."""
    one, number = house()
    configure(one, client(STORE))
    assert one.closed() == []
    configure(one, client(STORE, JOIN))
    assert one.closed() == [(number, "shutdown")] and one.router.links.get(number) is None


def test_a_neighbour_that_is_our_uplink_no_more_is_left() -> None:
    one, _ = house()
    up = one.link(UP.public, role="router", dialled=True)
    say(one, up, UP, JoinAck(GROUP.public, True))
    told(one, up)
    one.router.neighbours_changed([client(*ALL), Neighbour(UP.public)], one.now())
    one.cycle()
    assert told(one, up) == [Leave(GROUP.public)] and one.router.upstream.joined_at(UP.public) == (0, 1)
    publish(one)
    assert one.handed(up) == []


def test_an_uplink_that_takes_the_right_back_is_heard() -> None:
    """The groups that we were in are shown as not joined, and logged."""
    one, _ = house()
    up = one.link(UP.public, role="router", dialled=True)
    say(one, up, UP, JoinAck(GROUP.public, True))
    assert one.router.upstream.joined_at(UP.public) == (1, 1)
    say(one, up, UP, JoinAck(GROUP.public, False))
    assert one.router.upstream.joined_at(UP.public) == (0, 1)
    assert states(one, "join")[-1]["refused_by"] == UP.public


def test_who_is_owed_something_is_dialled_when_it_may_have_an_address() -> None:
    one, number = house()
    one.router.link_down(number, one.now())
    publish(one)
    one.dialled()
    configure(one, Neighbour(CLIENT.public, "client", ALL, urls=("tls://there:1",)))
    assert one.dialled() == [CLIENT.public]
    configure(one, Neighbour(CLIENT.public, "client", ALL, urls=("tls://there:1",)))
    assert one.dialled() == [], "nothing is new"


# -- at a start --------------------------------------------------------------------------------------------------


def test_rights_that_went_while_the_node_was_down() -> None:
    """Each case: rights granted now -> what the disk keeps of subscriptions and waiting messages."""
    for grants, groups, waiting in (
        ({JOIN, STORE}, 1, 2), ({JOIN}, 1, 0), ({STORE}, 0, 1), ({WHY}, 0, 0), (set[str](), 0, 0),
    ):  # fmt: skip
        disk = Disk()
        one, number = house(disk)
        one.router.link_down(number, one.now())
        publish(one)
        send(one)
        again = OneRouter(client(*grants), UPLINK, locals={ALICE.public, BOB.public}, disk=disk)
        again.cycle()
        again.clear()
        assert (len(disk.groups), owed(again)) == (groups, waiting), grants
        assert [leave["because"] for leave in states(again, "leave")] == ["not-authorised"] * (1 - groups)
        assert ends(again) == ["dropped"] * (2 - waiting)
