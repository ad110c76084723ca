"""Links, restarts and reconfiguration of the deciding core, by value."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from rigs.plain_store import Disk
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import RouterChange
from router.core.neighbours.directory import JOIN, RELAY, STORE, Neighbour, Standing
from router.core.routing.admission import TOGETHER_S
from router.core.routing.effects import Close
from router.core.routing.groups import Subscription
from router.core.routing.limits import AdmissionLimits, CoreLimits, QueueLimits, RouteLimits
from router.core.routing.routes import Route
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

LOWER, HIGHER = sorted((SigningKey(bytes((n,)) * 32) for n in (71, 72, 73)), key=lambda key: key.public)[::2]
EXPIRY = expiry_min(WALL_S + 600)


def keys_around_me() -> tuple[bytes, bytes]:
    """Return a key below this router's and one above it."""
    keys = sorted(SigningKey(bytes((n,)) * 32).public for n in range(1, 40))
    return keys[0], keys[-1]


# -- two dials at once (R-B6) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("i_am_lower", [True, False])
@pytest.mark.parametrize("mine_first", [True, False])
def test_the_connection_that_the_lower_key_began_stays(i_am_lower: bool, mine_first: bool) -> None:
    below, above = keys_around_me()
    peer = above if i_am_lower else below
    assert (ME.public < peer) is i_am_lower
    one = OneRouter(Neighbour(peer))
    first = one.link(peer, role="router", dialled=mine_first)
    second = one.link(peer, role="router", dialled=not mine_first)
    [(closed, why)] = one.closed()
    stays = first if mine_first is i_am_lower else second
    assert why == "replaced" and {closed, stays} == {first, second}
    assert [link.id for link in one.router.links] == [stays]


def test_later_or_from_the_same_side_the_newer_connection_wins() -> None:
    _, above = keys_around_me()
    one = OneRouter(Neighbour(above))
    first = one.link(above, role="router", dialled=True)
    second = one.link(above, role="router", dialled=True)
    one.seconds += TOGETHER_S
    third = one.link(above, role="router", dialled=False)
    assert [number for number, _ in one.closed()] == [first, second]
    assert [link.id for link in one.router.links] == [third]


# -- who is let in -----------------------------------------------------------------------------------------------


def test_neither_ourselves_nor_the_blocked_nor_too_many_strangers() -> None:
    blocked = Neighbour(BOB.public, blocked=True)
    one = OneRouter(blocked, strangers=True, limits=CoreLimits(admission=AdmissionLimits(strangers_connections_max=1)))
    for key in (ME.public, BOB.public, LOWER.public, HIGHER.public):
        one.link(key, role="router")
    assert one.closed() == [(1, "not-authorised"), (2, "not-authorised"), (4, "rate-limited")]
    assert [link.standing for link in one.router.links] == [Standing.STRANGER]


def test_only_durable_apps_of_the_owner_are_recorded_and_not_too_many() -> None:
    one = OneRouter(limits=CoreLimits(admission=AdmissionLimits(locals_max=1)), strangers=True)
    one.link(ALICE.public, durable=False)
    one.link(LOWER.public, owner=False)
    assert not one.disk.locals
    one.link(BOB.public)
    full = one.link(HIGHER.public)
    assert list(one.disk.locals) == [BOB.public]
    [refused] = [effect for effect in one.done if isinstance(effect, Close)]
    assert (refused.link, refused.reason) == (full, Reason.NOT_AUTHORISED)
    assert "1 local keys" in refused.text and "limits.local_services_max" in refused.text and len(refused.text) < 200
    one.link(HIGHER.public, durable=False)
    one.link(BOB.public)
    assert len(one.router.links) == 4, "a throwaway key, and one that is recorded, come in as ever"


def test_all_strangers_together_fill_no_more_than_their_share() -> None:
    limits = CoreLimits(queues=QueueLimits(node_messages_max=300, strangers_percent=1))
    disk = Disk()
    one = OneRouter(strangers=True, limits=limits, locals={ALICE.public}, disk=disk)
    one.router.directory.public = frozenset({ALICE.public})
    asks = [seal_unicast(key, ALICE.public, b"", ttl_s=300, expiry_min=EXPIRY) for key in (LOWER, HIGHER, BOB)]
    links = [one.link(key.public, role="router") for key in (LOWER, HIGHER, BOB)]
    for number, ask in zip(links, asks, strict=True):
        one.bring(number, ask)
    one.cycle()
    more = seal_unicast(BOB, ALICE.public, b"more", ttl_s=300, expiry_min=EXPIRY)
    one.bring(links[2], more)
    one.cycle()
    assert one.settled()[links[2]] == (2, [(2, Reason.RATE_LIMITED, "")]), "it may come again"
    assert one.turned() == [("refused", Reason.QUEUE_FULL_GROUP, 1)]

    again = OneRouter(strangers=True, limits=limits, locals={ALICE.public}, disk=disk)
    again.router.directory.public = frozenset({ALICE.public})
    again.bring(again.link(BOB.public, role="router"), more)
    again.cycle()
    assert [len(refused) for _, refused in again.settled().values()] == [1], "a restart gives them no more"


# -- restarts ----------------------------------------------------------------------------------------------------


def test_what_is_on_disk_comes_back() -> None:
    disk = Disk()
    one = OneRouter(
        Neighbour(LOWER.public, grants=frozenset({JOIN, STORE, RELAY})), locals={ALICE.public, BOB.public}, disk=disk
    )
    alice, edge = one.link(ALICE.public), one.link(LOWER.public, role="router")
    one.bring(edge, seal_unicast(HIGHER, BOB.public, b"", ttl_s=300, expiry_min=EXPIRY))
    one.bring(alice, seal_unicast(ALICE, BOB.public, b"", ttl_s=300, expiry_min=EXPIRY))
    one.cycle()
    again = OneRouter(Neighbour(LOWER.public), locals={ALICE.public, BOB.public}, disk=disk)
    assert list(again.router.routes) == [Route(HIGHER.public, LOWER.public, WALL_S + 600)]
    queue = again.router.queues.by_recipient[BOB.public]
    assert (queue.total.messages, len(queue.shares), again.router.next_arrival) == (2, 4, 3)
    again.pass_time(0)
    assert again.dialled() == [BOB.public]
    assert repr(again.router).startswith(
        f"<router {ME.public.hex()[:8]}: 0 links, <0 subscriptions to 0 groups>, <1 learned"
    )


def test_a_neighbour_that_does_not_come_back_holds_its_routes_no_longer_than_another() -> None:
    disk = Disk(routes={HIGHER.public: Route(HIGHER.public, LOWER.public, WALL_S + 600)})
    one = OneRouter(
        Neighbour(LOWER.public),
        Neighbour(BOB.public),
        disk=disk,
        locals={ALICE.public},
        limits=CoreLimits(routes=RouteLimits(hold_s=30)),
    )
    bob = one.link(BOB.public, role="router", owner=False)
    letters = [seal_unicast(HIGHER, ALICE.public, bytes((n,)), ttl_s=300, expiry_min=EXPIRY - 5) for n in range(2)]
    for letter, neighbour in zip(letters, (LOWER.public, BOB.public), strict=True):
        one.bring(bob, letter)
        one.cycle()
        assert [route.neighbour for route in one.router.routes] == [neighbour]
        one.seconds += 31


def test_who_may_have_no_queue_any_more_loses_it_at_the_start() -> None:
    gone = b"g" * 32
    group = GROUP.public
    disk = Disk(
        groups={
            (group, gone): Subscription(group, gone, False, True),
            (group, ALICE.public): Subscription(group, ALICE.public, False, False),
            (group, BOB.public): Subscription(group, BOB.public, False, True),
        }
    )
    one = OneRouter(disk=disk, locals={ALICE.public, BOB.public})
    one.cycle()
    assert list(disk.groups) == [(group, BOB.public)]
    left = [event for event in one.events if isinstance(event, RouterChange) and event.event == "leave"]
    assert {dict(event.fields)["subscriber"] for event in left} == {gone, ALICE.public}
    assert not one.router.purges, "nothing waits for them"
    assert disk.away == {BOB.public: WALL_S}, "away since now, for it may have been here until the crash"


# -- a new configuration -----------------------------------------------------------------------------------------


def test_standings_follow_the_configuration() -> None:
    one = OneRouter(Neighbour(LOWER.public), Neighbour(HIGHER.public))
    lower, higher, app = (
        one.link(LOWER.public, role="router"),
        one.link(HIGHER.public, role="router"),
        one.link(ALICE.public),
    )
    now_known = [Neighbour(LOWER.public, grants=frozenset({RELAY})), Neighbour(ALICE.public)]
    one.router.neighbours_changed(now_known, one.now())
    one.cycle()
    found = {number: link.standing for number in (lower, higher, app) if (link := one.router.links.get(number))}
    assert found[lower] is Standing.CLIENT and found[app] is Standing.LOCAL, "an app of the owner stays one"
    assert one.closed() == [(higher, "not-authorised")]


def test_a_plan_is_made_anew_when_a_route_changes_its_neighbour() -> None:
    one = OneRouter(Neighbour(LOWER.public), Neighbour(HIGHER.public))
    alice, lower, higher = (
        one.link(ALICE.public),
        one.link(LOWER.public, role="router"),
        one.link(HIGHER.public, role="router"),
    )
    for neighbour, link in ((LOWER, lower), (HIGHER, higher)):
        until_s = WALL_S + 100 + (neighbour is HIGHER)
        one.router.routes.learn(Route(BOB.public, neighbour.public, until_s), WALL_S)
        letter = seal_unicast(ALICE, BOB.public, bytes((link,)), ttl_s=60, expiry_min=EXPIRY)
        one.bring(alice, letter)
        one.cycle()
        assert one.handed(link) == [letter]


def test_what_ended_in_every_way_leaves_no_counter() -> None:
    one = OneRouter(locals={BOB.public})
    alice = one.link(ALICE.public)
    one.bring(alice, *[seal_unicast(ALICE, BOB.public, bytes((n,)), ttl_s=10, expiry_min=EXPIRY) for n in range(9)])
    one.bring(alice, seal_multicast(GROUP, b"", ttl_s=10, expiry_min=EXPIRY))
    one.cycle()
    assert one.settled()[alice][1] == [(10, Reason.NO_SUBSCRIBERS, "")]
    one.pass_time(11)
    queues = one.router.queues
    assert (queues.node.messages, queues.node.bytes) == (0, 0)
    assert not queues._groups and not queues._neighbours and not queues.by_recipient[BOB.public].shares
