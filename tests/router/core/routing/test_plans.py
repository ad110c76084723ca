"""Plans: every step of both algorithms of the specification, for every standing (R-C3, R-C6, R-C11, R-C23)."""

from __future__ import annotations

import pytest

from router.core.neighbours.directory import JOIN, RELAY, STORE, Directory, Neighbour, Standing
from router.core.routing.groups import Groups, Subscription
from router.core.routing.limits import RouteLimits
from router.core.routing.plans import FOR_US, INTRODUCES, Plan, Routing
from router.core.routing.routes import Route, Routes
from router.core.wire.message import MULTICAST, UNICAST
from router.core.wire.reasons import NOT_SHARED, Reason

ME, APP, OTHER_APP, CLIENT, READER, PEER, STRANGER, UP, UP2, FAR, BEHIND, NEWS, PUBLIC = (
    bytes((n,)) * 32 for n in range(13)
)
LOCAL, AS_CLIENT, AS_PEER, AS_STRANGER = Standing.LOCAL, Standing.CLIENT, Standing.PEER, Standing.STRANGER


class House:
    """A router with two apps, a client with all rights, one that may only join, a peer, perhaps uplinks."""

    def __init__(self, *, uplinks: int = 0, connected: dict[bytes, Standing] | None = None) -> None:
        self.directory = Directory(
            ME, accept_strangers=True, locals={APP, OTHER_APP, PUBLIC}, public=frozenset({PUBLIC})
        )
        known = [
            Neighbour(CLIENT, grants=frozenset({JOIN, STORE, RELAY})), Neighbour(READER, grants=frozenset({JOIN})),
            Neighbour(PEER),
        ]  # fmt: skip
        self.directory.replace_neighbours([*known, *(Neighbour(key, uplink=True) for key in (UP, UP2)[:uplinks])])
        self.groups = Groups(PUBLIC)
        self.routes = Routes(RouteLimits(10, 10), self.directory.rank)
        self.connected = connected or {}
        self.advertised: dict[bytes, bytes] = {}
        self.routing = Routing(
            self.directory, self.groups, self.routes, self.connected.get, self.advertised.get, lambda _: True
        )

    def unicast(self, source: bytes, to: bytes, standing: Standing, neighbour: bytes, via: bytes | None = None) -> Plan:
        return self.routing.plan(UNICAST, source, to, via, neighbour, standing, 0)

    def multicast(self, standing: Standing, neighbour: bytes, via: bytes | None = None) -> Plan:
        return self.routing.plan(MULTICAST, NEWS, None, via, neighbour, standing, 0)

    def join(self, *subscribers: bytes, local: bool = False) -> House:
        for one in subscribers:
            self.groups.add(Subscription(NEWS, one, local, True))
        return self

    def learn(self, destination: bytes, neighbour: bytes) -> House:
        self.routes.learn(Route(destination, neighbour, 100), 0)
        return self


# -- unicast -----------------------------------------------------------------------------------------------------

NEIGHBOURS = [(APP, LOCAL), (CLIENT, AS_CLIENT), (READER, AS_CLIENT), (PEER, AS_PEER), (STRANGER, AS_STRANGER)]
REMOTE = NEIGHBOURS[1:]


def test_a_local_service_speaks_for_itself_only() -> None:
    assert House().unicast(OTHER_APP, ME, LOCAL, APP) is Reason.NOT_LOCAL_SOURCE
    assert House().unicast(BEHIND, ME, LOCAL, APP) is Reason.NOT_LOCAL_SOURCE


@pytest.mark.parametrize(("neighbour", "standing"), REMOTE)
@pytest.mark.parametrize("source", [ME, APP])
def test_a_local_source_from_outside_is_a_replay(neighbour: bytes, standing: Standing, source: bytes) -> None:
    for to in (ME, OTHER_APP, PEER):
        assert House().unicast(source, to, standing, neighbour) is Reason.NOT_LOCAL_SOURCE


def test_a_key_connected_as_local_is_local_though_not_recorded() -> None:
    house = House(connected={BEHIND: LOCAL})
    assert house.unicast(BEHIND, ME, AS_PEER, PEER) is Reason.NOT_LOCAL_SOURCE
    assert house.unicast(FAR, BEHIND, AS_PEER, PEER) == (BEHIND,)


@pytest.mark.parametrize(("neighbour", "standing"), NEIGHBOURS)
def test_3_1_to_this_router(neighbour: bytes, standing: Standing) -> None:
    assert House().unicast(neighbour, ME, standing, neighbour) is FOR_US


@pytest.mark.parametrize(("neighbour", "standing"), NEIGHBOURS)
def test_3_2_to_a_local_service(neighbour: bytes, standing: Standing) -> None:
    """Strangers reach only the services marked public."""
    expected = Reason.NOT_AUTHORISED if standing is AS_STRANGER else (OTHER_APP,)
    assert House().unicast(neighbour, OTHER_APP, standing, neighbour) == expected
    assert House().unicast(neighbour, PUBLIC, standing, neighbour) == (PUBLIC,)


@pytest.mark.parametrize(
    ("neighbour", "standing", "plan"),
    [
        (APP, LOCAL, (PEER,)), (CLIENT, AS_CLIENT, (PEER,)), (READER, AS_CLIENT, Reason.NO_ROUTE),
        (PEER, AS_PEER, Reason.NO_ROUTE), (STRANGER, AS_STRANGER, Reason.NOT_AUTHORISED),
    ],
)  # fmt: skip
def test_3_3_only_for_local_sources_and_those_who_may_relay(neighbour: bytes, standing: Standing, plan: Plan) -> None:
    source = neighbour if standing is LOCAL else BEHIND
    assert House().learn(FAR, PEER).unicast(source, FAR, standing, neighbour) == plan


@pytest.mark.parametrize(("neighbour", "standing"), NEIGHBOURS)
def test_what_is_for_a_client_is_forwarded_or_queued(neighbour: bytes, standing: Standing) -> None:
    """C11: messages are for the client, or for a service behind one that may relay; they never go back to their
    bringer."""
    house = House().learn(FAR, CLIENT)
    source = neighbour if standing is LOCAL else BEHIND
    to_client = (
        Reason.NOT_AUTHORISED if standing is AS_STRANGER else Reason.NO_ROUTE if neighbour is CLIENT else (CLIENT,)
    )
    to_itself = INTRODUCES if neighbour is CLIENT else to_client
    assert house.unicast(source, CLIENT, standing, neighbour) == to_itself, "its signer is reached through it"
    assert house.unicast(source, FAR, standing, neighbour) == to_client


def test_behind_a_client_that_may_not_relay_there_is_nobody() -> None:
    assert House().learn(FAR, READER).unicast(BEHIND, FAR, AS_PEER, PEER) is Reason.NO_ROUTE


def test_3_3_1_via_is_honoured_of_local_services_alone() -> None:
    house = House(connected={STRANGER: AS_STRANGER}).learn(FAR, CLIENT)
    assert house.unicast(APP, BEHIND, LOCAL, APP, via=PEER) == (PEER,)
    assert house.unicast(APP, BEHIND, LOCAL, APP, via=STRANGER) == (STRANGER,), "connected is enough"
    assert house.unicast(APP, BEHIND, LOCAL, APP, via=BEHIND) is Reason.NO_ROUTE
    assert house.unicast(APP, BEHIND, LOCAL, APP, via=ME) is Reason.NO_ROUTE
    assert house.unicast(CLIENT, BEHIND, AS_CLIENT, CLIENT, via=PEER) is Reason.NO_ROUTE
    assert house.unicast(APP, OTHER_APP, LOCAL, APP, via=PEER) == (OTHER_APP,), "3.2 comes first"


def test_3_3_2_a_known_neighbour_a_learned_route_an_uplink_in_this_order() -> None:
    house = House(uplinks=2)
    assert house.unicast(APP, PEER, LOCAL, APP) == (PEER,)
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP,), "away, but the first"
    house.connected[UP2] = AS_PEER
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP2,), "the one that is there"
    house.learn(FAR, PEER)
    assert house.unicast(APP, FAR, LOCAL, APP) == (PEER,)
    assert House().unicast(APP, FAR, LOCAL, APP) is Reason.NO_ROUTE


def test_what_an_uplink_that_is_away_leads_to_goes_by_another_one_as_well() -> None:
    house = House(uplinks=2).learn(FAR, UP)
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP,), "both are away"
    house.connected[UP2] = AS_PEER
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP, UP2), "UP may come back, and UP2 may know no way"
    assert house.unicast(BEHIND, FAR, AS_CLIENT, CLIENT) == (UP, UP2)
    assert house.unicast(APP, UP, LOCAL, APP) == (UP,), "what is for the uplink itself"
    house.connected[UP] = AS_PEER
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP,)


def test_what_waits_for_uplinks_goes_to_who_has_said_that_it_leads_there_as_well() -> None:
    house = House(uplinks=2)
    house.advertised[FAR] = PEER
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP,), "PEER is away, too"
    house.connected[PEER] = AS_PEER
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP, PEER)
    house.connected[UP2] = AS_PEER
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP2,), "a hint displaces nothing, nor is it asked beside an uplink"


def test_a_router_that_is_no_uplink_is_dialled_when_something_is_for_it() -> None:
    house = House(uplinks=1, connected={UP: AS_PEER}).learn(FAR, PEER)
    assert house.unicast(APP, FAR, LOCAL, APP) == (PEER,), "away because it was idle"


def test_nothing_goes_back_to_whom_it_came_from() -> None:
    two = House(uplinks=2, connected={UP: AS_PEER})
    assert two.unicast(BEHIND, FAR, AS_CLIENT, UP) is Reason.NO_ROUTE, "an uplink may have nothing passed on"
    two.directory.replace_neighbours(
        [Neighbour(UP, uplink=True, grants=frozenset({RELAY})), Neighbour(UP2, uplink=True)]
    )
    assert two.unicast(BEHIND, FAR, AS_CLIENT, UP) == (UP2,), "away, but not the bringer"
    house = House(uplinks=1).learn(FAR, CLIENT)
    assert house.unicast(BEHIND, FAR, AS_CLIENT, CLIENT) is Reason.NO_ROUTE
    assert house.unicast(BEHIND, STRANGER, AS_PEER, UP) is Reason.NO_ROUTE
    assert house.unicast(BEHIND, STRANGER, AS_CLIENT, CLIENT) == (UP,)


def test_a_route_that_has_aged_leads_nowhere() -> None:
    house = House().learn(FAR, PEER)
    assert house.routing.unicast(APP, FAR, None, APP, LOCAL, 99) == (PEER,)
    assert house.routing.unicast(APP, FAR, None, APP, LOCAL, 100) is Reason.NO_ROUTE


# -- what a right is good for, and who has none --------------------------------------------------------------------


def test_3_3_a_right_serves_what_it_names_and_no_more() -> None:
    """C11: passing on to a client needs relay, queueing for it while it is away needs store, for our own apps too."""
    house = House(connected={PEER: AS_PEER})
    relays = frozenset({RELAY})
    for grants, away, there in ((frozenset({JOIN, STORE}), None, None), (relays, None, READER)):
        house.directory.replace_neighbours([Neighbour(READER, grants=grants), Neighbour(PEER)])
        for connected, to in ((False, away), (True, there)):
            house.connected.pop(READER, None)
            if connected:
                house.connected[READER] = AS_CLIENT
            expected = Reason.NO_ROUTE if to is None else (to,)
            assert house.unicast(BEHIND, READER, AS_PEER, PEER) == expected
            ours = Reason.NO_ROUTE if not connected and STORE not in grants else (READER,)
            assert house.unicast(APP, READER, LOCAL, APP) == ours


def test_one_that_is_blocked_is_never_the_next_hop() -> None:
    everything = frozenset({JOIN, STORE, RELAY})
    house = House(connected={CLIENT: AS_CLIENT}).learn(FAR, CLIENT).join(CLIENT, PEER)
    house.connected[PEER] = AS_PEER
    blocked = Neighbour(CLIENT, grants=everything, uplink=True, blocked=True)
    house.directory.replace_neighbours([blocked, Neighbour(UP, uplink=True), Neighbour(PEER)])
    assert house.unicast(APP, CLIENT, LOCAL, APP) is Reason.BLOCKED
    assert house.unicast(BEHIND, CLIENT, AS_PEER, PEER) is Reason.BLOCKED
    assert house.unicast(BEHIND, CLIENT, AS_STRANGER, STRANGER) is Reason.NOT_AUTHORISED
    assert house.unicast(APP, BEHIND, LOCAL, APP, via=CLIENT) is Reason.BLOCKED
    assert house.unicast(BEHIND, FAR, AS_PEER, PEER) is Reason.NO_ROUTE, "it serves nobody behind it"
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP,), "round it, where there is another way"
    assert house.multicast(LOCAL, APP) == (UP,), "nor a subscriber; nor is one without the right to join"
    assert house.multicast(LOCAL, APP, via=CLIENT) is Reason.BLOCKED
    house.directory.replace_neighbours([Neighbour(OTHER_APP, blocked=True), Neighbour(PEER)])
    assert house.unicast(BEHIND, OTHER_APP, AS_PEER, PEER) is Reason.BLOCKED, "nor an app"


def test_a_learned_route_through_one_who_is_no_neighbour_any_more_is_not_taken() -> None:
    house = House(uplinks=1).learn(FAR, STRANGER)
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP,)
    house.connected[STRANGER] = AS_STRANGER
    assert house.unicast(APP, FAR, LOCAL, APP) == (UP,), "a stranger leads to itself alone"
    assert house.unicast(APP, STRANGER, LOCAL, APP) == (STRANGER,)


# -- multicast ---------------------------------------------------------------------------------------------------


def test_strangers_may_not_multicast() -> None:
    assert House().join(APP).multicast(AS_STRANGER, STRANGER) is Reason.NOT_AUTHORISED


def test_step_2_via_of_local_sources_alone() -> None:
    house = House(uplinks=1).join(APP, OTHER_APP)
    assert house.multicast(LOCAL, APP, via=PEER) == (PEER,)
    assert house.multicast(LOCAL, APP, via=BEHIND) is Reason.NO_ROUTE
    assert house.multicast(AS_PEER, PEER, via=UP) == (APP, OTHER_APP), "no open relay (R-C6)"


def test_step_3_without_subscribers_it_is_dropped() -> None:
    for neighbour, standing in NEIGHBOURS[:-1]:
        assert House().multicast(standing, neighbour) is Reason.NO_SUBSCRIBERS
    assert House().join(APP).multicast(LOCAL, APP) is Reason.NO_SUBSCRIBERS, "nobody but the publisher itself"


def test_what_a_client_publishes_waits_until_the_pubsub_service_has_joined() -> None:
    """Otherwise no other node would get messages published in the moment after the first JOIN."""
    house = House(connected={PUBLIC: LOCAL}).join(CLIENT)
    assert house.multicast(AS_CLIENT, CLIENT) is NOT_SHARED and NOT_SHARED.later
    assert house.multicast(LOCAL, APP) == (CLIENT,), "apps of this node are not kept waiting"
    assert house.join(PUBLIC).multicast(AS_CLIENT, CLIENT) == (PUBLIC,)
    house = House(connected={PUBLIC: LOCAL, READER: AS_CLIENT}).join(CLIENT, READER)
    house.groups.decline(NEWS)
    assert house.multicast(AS_CLIENT, CLIENT) == (READER,), "the service takes no part"
    house = House(connected={READER: AS_CLIENT}).join(CLIENT, READER)
    assert house.multicast(AS_CLIENT, CLIENT) == (READER,), "nor does one that is not there"


def test_step_8_to_every_subscriber_but_the_one_it_came_from() -> None:
    house = House().join(APP, CLIENT, OTHER_APP)
    assert house.multicast(LOCAL, APP) == (CLIENT, OTHER_APP)
    assert house.multicast(AS_CLIENT, CLIENT) == (APP, OTHER_APP)
    assert house.multicast(AS_PEER, PEER) == (APP, CLIENT, OTHER_APP)


def test_who_has_no_queue_is_owed_something_only_while_connected() -> None:
    house = House().join(READER, BEHIND, CLIENT)
    house.directory.join_open = True
    assert house.multicast(LOCAL, APP) == (CLIENT,), "the client that may store"
    house.connected.update({READER: AS_CLIENT, BEHIND: AS_STRANGER})
    assert house.multicast(LOCAL, APP) == (READER, BEHIND, CLIENT)


def test_who_may_not_join_is_owed_nothing_however_it_came_to_be_a_subscriber() -> None:
    """A subscriber needs the right to join, there or away; the right to have messages stored makes nobody a reader."""
    house = House().join(PEER, CLIENT, BEHIND, READER)
    client, reader = Neighbour(CLIENT, grants=frozenset({STORE, RELAY})), Neighbour(READER, grants=frozenset({JOIN}))
    house.directory.replace_neighbours([client, Neighbour(PEER), reader])
    house.connected.update({PEER: AS_PEER, CLIENT: AS_CLIENT, BEHIND: AS_STRANGER, READER: AS_CLIENT})
    assert house.multicast(LOCAL, APP) == (READER,)
    assert House(uplinks=1).join(OTHER_APP).multicast(AS_CLIENT, CLIENT) == (OTHER_APP, UP)
    house = House(uplinks=1).join(OTHER_APP)
    house.directory.replace_neighbours([Neighbour(CLIENT, grants=frozenset({STORE})), Neighbour(UP, uplink=True)])
    assert house.multicast(AS_CLIENT, CLIENT) == (OTHER_APP,), "nor does it publish through us"


def test_what_is_published_here_goes_to_every_uplink_there_or_not() -> None:
    house = House(uplinks=2).join(OTHER_APP)
    assert house.multicast(LOCAL, APP) == (OTHER_APP, UP, UP2)
    assert house.multicast(AS_CLIENT, CLIENT) == (OTHER_APP, UP, UP2), "the client publishes through us"
    assert house.multicast(AS_PEER, PEER) == (OTHER_APP,), "a mere peer does not"
    assert House(uplinks=2).multicast(LOCAL, APP) == (UP, UP2), "nobody here has joined: it is wanted elsewhere"


def test_what_comes_from_an_uplink_goes_to_no_other() -> None:
    house = House(uplinks=2, connected={UP2: AS_PEER}).join(APP, UP2, CLIENT)
    assert house.multicast(AS_PEER, UP) == (APP, CLIENT)
    assert house.multicast(LOCAL, OTHER_APP) == (APP, CLIENT, UP, UP2), "each once, joined or not"
    assert House(uplinks=2).multicast(AS_PEER, UP) is Reason.NO_SUBSCRIBERS


def test_a_group_that_is_local_stays_here() -> None:
    house = House(uplinks=1).join(OTHER_APP, local=True)
    assert house.multicast(LOCAL, APP) == (OTHER_APP,)
    house.join(APP)
    assert house.multicast(LOCAL, APP) == (OTHER_APP, UP)


def test_a_client_that_joins_locally_says_so_for_itself_alone() -> None:
    """A client's local JOIN keeps nobody else's messages from the uplinks; that of an app of this node decides for
    all."""
    house = House(uplinks=1, connected={CLIENT: AS_CLIENT}).join(CLIENT, local=True)
    assert house.multicast(LOCAL, APP) == (CLIENT, UP)
    assert house.multicast(AS_CLIENT, CLIENT) is Reason.NO_SUBSCRIBERS, "its own stay here, as it wished"
    house.join(READER, OTHER_APP, local=True)
    assert house.multicast(LOCAL, APP) == (CLIENT, OTHER_APP)
    assert house.multicast(AS_CLIENT, CLIENT) == (OTHER_APP,)


def test_who_is_away_without_store_is_left_out_by_name() -> None:
    house = House(uplinks=1).join(READER, CLIENT, STRANGER, UP, APP)
    assert house.routing.not_kept(NEWS, APP) == (READER,)
    assert house.routing.not_kept(NEWS, READER) == ()  # who brings it is not owed it
    house.connected[READER] = AS_CLIENT
    assert house.routing.not_kept(NEWS, APP) == ()
