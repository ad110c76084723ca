"""The governor: roots, strangers, dials, churn, sharing, by value; and many of them, half of which die, by seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest
from rigs.peer_world import AGREED, TARGETS, PeerWorld

from services.dmq.core.peers.acts import Act, AskPeers, Cool, Dial, Hang, Heat
from services.dmq.core.peers.book import DIAL_S, RESTS_S, SHARED_MAX
from services.dmq.core.peers.governor import ASK_S, Governor
from services.dmq.core.peers.hot_places import OF_PREFIX_MAX, Targets
from services.dmq.core.peers.known import KnownPeer, PeerSource, PeerState, RootGroup, is_public
from services.dmq.core.peers.struck_roots import STRUCK
from services.dmq.core.peers.trials import TRIAL_S, TURN_S
from services.dmq.core.protocols.node_handshake import Agreement
from services.dmq.core.protocols.peer_sharing import PeerAddress

ONE_WAY = Agreement(2, False, False)
SILENT = Agreement(2, True, False)


def address(number: int, place: int = 0) -> PeerAddress:
    return PeerAddress(f"45.{place // 256}.{place % 256}.{number}", 3141)


ROOTS = tuple(address(number, number) for number in range(1, 5))


def governor(*groups: RootGroup, targets: Targets = TARGETS, own: tuple[PeerAddress, ...] = ()) -> Governor:
    found = Governor(targets, Random(1), own)
    found.set_roots(groups)
    return found


def of_kind(acts: list[Act], kind: type) -> list[PeerAddress]:
    return [act.address for act in acts if isinstance(act, kind)]


def test_local_roots_are_dialled_and_made_hot_up_to_their_valencies() -> None:
    of = governor(RootGroup(ROOTS, hot=1, warm=3))
    dialled = of_kind(of.decide(0), Dial)
    assert len(dialled) == 3 and set(dialled) <= set(ROOTS)
    for one in dialled:
        assert of.opened(one, SILENT, 1.0, is_inbound=False)
    assert len(of_kind(of.decide(1.0), Heat)) == 1
    assert of.decide(2.0) == []


def test_a_root_behind_a_firewall_is_waited_for_and_hot_when_it_comes() -> None:
    of = governor(RootGroup(ROOTS[:1], behind_firewall=True))
    assert of.decide(0) == []
    of.opened(ROOTS[0], SILENT, 5.0, is_inbound=True)
    assert of.decide(5.0) == [Heat(ROOTS[0])]


def test_who_only_dials_is_never_pulled_from_and_forgotten_when_it_goes() -> None:
    of = governor()
    of.opened(ROOTS[0], ONE_WAY, 0.0, is_inbound=True)
    assert of.decide(0.0) == []
    of.closed(ROOTS[0], 500.0)
    assert of.get(ROOTS[0]) is None


def test_who_has_dialled_in_is_hot_at_once_but_half_of_the_places_and_two_of_a_prefix_at_most() -> None:
    of = governor(targets=Targets(active=8))
    for number in range(1, 10):
        of.opened(address(number, 7), SILENT, 0.0, is_inbound=True)
    assert len(of_kind(of.decide(0.0), Heat)) == OF_PREFIX_MAX
    for place in range(20, 30):
        of.opened(address(1, place), SILENT, 1.0, is_inbound=True)
    of.decide(1.0)
    assert len(of.of_state(PeerState.HOT)) == 4
    for root in ROOTS:
        of.opened(root, SILENT, 2.0, is_inbound=True)
    of.set_roots([RootGroup(ROOTS, 0, 0, is_local=False)])
    assert set(of_kind(of.decide(2.0), Heat)) == set(ROOTS), "those that are named have the other half"


def test_six_hundred_of_one_network_hold_two_hot_places_and_fill_no_book() -> None:
    of = governor()
    for number in range(600):
        crowd = PeerAddress(f"45.9.9.{number % 250}", 3000 + number)
        of.opened(crowd, SILENT, 0.0, is_inbound=True)
    assert len(of_kind(of.decide(0.0), Heat)) == OF_PREFIX_MAX
    of.opened(ROOTS[0], SILENT, 1.0, is_inbound=True)
    assert of_kind(of.decide(1.0), Heat) == [ROOTS[0]], "another one has its place"
    for number in range(600):
        of.closed(PeerAddress(f"45.9.9.{number % 250}", 3000 + number), 2.0)
    assert len(of.peers) <= 2 * OF_PREFIX_MAX + 1


def test_a_second_connection_with_a_peer_is_one_too_many() -> None:
    of = governor()
    assert of.opened(ROOTS[0], SILENT, 0.0, is_inbound=True)
    assert not of.opened(ROOTS[0], SILENT, 0.0, is_inbound=False)
    of.failed(ROOTS[0], 1.0)
    assert [peer.address for peer in of.peers if peer.is_connected] == [ROOTS[0]], "a dial that met it changes nothing"


def test_a_dead_root_is_dialled_ever_more_seldom_and_never_forgotten() -> None:
    of = governor(RootGroup(ROOTS[:1]))
    now_s, pauses = 0.0, []
    for _ in range(12):
        assert of_kind(of.decide(now_s), Dial) == [ROOTS[0]]
        of.failed(ROOTS[0], now_s)
        assert of.decide(now_s) == []
        pauses.append(of.due_s - now_s)
        now_s = of.due_s
    assert 5 <= pauses[0] <= 10 and all(80 <= pause <= 160 for pause in pauses[5:])


def test_a_stranger_is_forgotten_after_three_failures_and_not_dialled_again_soon() -> None:
    of = governor(RootGroup(ROOTS[:1]))
    of.decide(0)
    of.opened(ROOTS[0], SILENT, 0.0, is_inbound=False)
    stranger, now_s = address(9, 99), 0.0
    of.told(ROOTS[0], [stranger], now_s)
    for _ in range(3):
        while not of_kind(of.decide(now_s), Dial):
            now_s += 1.0
        of.failed(stranger, now_s)
    assert of.get(stranger) is None and now_s >= 2 * DIAL_S
    of.told(ROOTS[0], [stranger], now_s)
    assert of.get(stranger) is None
    of.told(ROOTS[0], [stranger], now_s + RESTS_S)
    assert of.get(stranger) is not None


def test_one_host_is_dialled_once_a_minute_however_many_ports_are_shared() -> None:
    of = governor()
    victim = [PeerAddress("45.9.9.9", port) for port in range(1, 30)]
    of.told(ROOTS[0], victim, 0.0)
    dials = sum(len(of_kind(of.decide(float(now_s)), Dial)) for now_s in range(600))
    assert dials <= 10


@pytest.mark.parametrize(
    "ip",
    (
        *("10.0.0.1", "127.0.0.1", "192.168.1.30", "0.0.0.0", "224.0.0.1", "169.254.1.1", "::1", "fe80::1", "fd00::1"),
        *("::ffff:45.9.9.9", "64:ff9b::2d09:909", "2002:2d09:909::1", "fec0::1"),
    ),
)
def test_what_is_not_public_is_neither_dialled_on_a_strangers_word_nor_shared(ip: str) -> None:
    assert not is_public(PeerAddress(ip, 3141)) and not is_public(PeerAddress("45.1.1.1", 0))
    of = governor()
    of.told(ROOTS[0], [PeerAddress(ip, 3141)], 0.0)
    assert not of.peers and of.decide(0.0) == []
    of.set_roots([RootGroup((PeerAddress(ip, 3141),), advertise=True)])
    assert of_kind(of.decide(0.0), Dial) == [PeerAddress(ip, 3141)], "a root is dialled wherever it is"
    of.opened(PeerAddress(ip, 3141), AGREED, 1.0, is_inbound=False)
    assert of.share(10, ROOTS[0], 1.0) == ()


def test_our_own_address_is_not_dialled() -> None:
    of = governor(RootGroup(ROOTS[:2], 2, 2), own=(ROOTS[0],))
    of.told(ROOTS[1], [ROOTS[0]], 0.0)
    assert of_kind(of.decide(0.0), Dial) == [ROOTS[1]]


def test_what_stays_in_a_new_topology_is_not_cut() -> None:
    of = governor(RootGroup(ROOTS[:2], 2, 2))
    of.decide(0.0)
    for root in ROOTS[:2]:
        of.opened(root, SILENT, 0.0, is_inbound=False)
    of.decide(0.0)
    of.set_roots([RootGroup(ROOTS[1:3], 2, 2)])
    acts = of.decide(1.0)
    assert acts == [Dial(ROOTS[2])] and of.get(ROOTS[1]).state is PeerState.HOT  # type: ignore[union-attr]
    assert of.get(ROOTS[0]).source is PeerSource.SHARED  # type: ignore[union-attr]


def test_a_root_that_is_struck_out_of_the_topology_is_left() -> None:
    of = governor(RootGroup(ROOTS[:3], 3, 3))
    of.decide(0.0)
    of.opened(ROOTS[0], SILENT, 0.0, is_inbound=False)
    of.opened(ROOTS[1], SILENT, 0.0, is_inbound=True)
    assert of_kind(of.decide(0.0), Heat) == list(ROOTS[:2])
    of.set_roots([RootGroup(ROOTS[3:])], is_edited=True)
    acts = of.decide(1.0)
    assert of_kind(acts, Hang) == [ROOTS[0]] and of_kind(acts, Cool) == [ROOTS[1]]
    assert of_kind(acts, Dial) == [ROOTS[3]] and not of_kind(acts, Heat)
    of.closed(ROOTS[0], 2.0)
    of.opened(ROOTS[2], SILENT, 2.0, is_inbound=False)  # it was being dialled
    acts = of.decide(2.0)
    assert acts == [Hang(ROOTS[2], STRUCK)] and of.get(ROOTS[0]) is None
    of.told(ROOTS[3], [ROOTS[0]], 3.0)
    assert of.get(ROOTS[0]) is None, "nobody else's word brings it back just now"


def test_a_root_that_is_struck_out_and_named_again_is_dialled_soon() -> None:
    of = governor(RootGroup(ROOTS[:1]))
    of.decide(0.0)
    of.opened(ROOTS[0], SILENT, 0.0, is_inbound=False)
    for at_s, closes in ((1.0, False), (100.0, True)):
        of.set_roots([], is_edited=True)
        assert of_kind(of.decide(at_s), Hang) == [ROOTS[0]]
        if closes:
            of.closed(ROOTS[0], at_s)
            of.decide(at_s)
        of.set_roots([RootGroup(ROOTS[:1])], is_edited=True)
        if not closes:
            of.closed(ROOTS[0], at_s)
        assert of.decide(at_s + 15.0) == [Dial(ROOTS[0])]
        of.opened(ROOTS[0], SILENT, at_s + 16.0, is_inbound=False)


def test_who_dials_in_again_and_again_from_other_places_fills_no_book() -> None:
    of = governor(targets=Targets(known=20))
    for number in range(2000):
        place = PeerAddress(f"45.0.{number % 50}.1", 1024 + number)
        of.opened(place, AGREED, float(number), is_inbound=True)
        of.closed(place, number + 0.5)
    assert len(of.peers) == 20
    one_place = governor()
    for port in range(1, 100):
        one_place.opened(PeerAddress("45.0.0.1", port), AGREED, 0.0, is_inbound=True)
        one_place.closed(PeerAddress("45.0.0.1", port), 1.0)
    assert len(one_place.peers) == 2 * OF_PREFIX_MAX


def test_those_who_have_dialled_in_keep_no_other_address_from_being_learned() -> None:
    of = governor(RootGroup(ROOTS[:1]), targets=Targets(known=20))
    of.decide(0.0)
    of.opened(ROOTS[0], AGREED, 0.0, is_inbound=False)
    for port in range(1, 100):
        of.opened(PeerAddress("45.0.0.1", port), AGREED, 0.0, is_inbound=True)
    assert ROOTS[0] in of_kind(of.decide(1.0), AskPeers)
    of.told(ROOTS[0], [address(1, 99)], 2.0)
    assert of.get(address(1, 99)) is not None


def test_a_local_root_that_becomes_a_public_one_is_dialled_as_such() -> None:
    of = governor(RootGroup(ROOTS[:1]))
    of.set_roots([RootGroup(ROOTS[:1], 0, 0, is_local=False)])
    assert of_kind(of.decide(0.0), Dial) == [ROOTS[0]]
    of.opened(ROOTS[0], AGREED, 0.0, is_inbound=False)
    assert of_kind(of.decide(1.0), Heat) == [ROOTS[0]]


def test_at_a_churn_the_hot_peer_that_is_never_first_gives_way_if_another_is_there() -> None:
    targets = Targets(active=4, churn_s=100)
    of = governor(targets=targets)
    peers = [address(1, place) for place in range(30, 33)]
    for one in peers:
        of.opened(one, SILENT, 0.0, is_inbound=True)
    of.decide(0.0)
    hot = [peer.address for peer in of.of_state(PeerState.HOT)]
    assert len(hot) == 2
    of.was_first(hot[1], 5.0)
    acts = of.decide(200.0)
    assert of_kind(acts, Cool) == [hot[0]] and of_kind(acts, Heat) == [one for one in peers if one not in hot]
    alone = governor(targets=targets)
    alone.opened(peers[0], SILENT, 0.0, is_inbound=True)
    alone.decide(0.0)
    assert alone.decide(200.0) == [], "the only one stays"


def crowd(seed: int) -> Governor:
    """Return a governor with four places for strangers, of which eight have dialled in, one a minute."""
    of = Governor(Targets(active=8, churn_s=1e6), Random(seed))
    for place in range(8):
        of.opened(address(1, place), SILENT, TRIAL_S * place, is_inbound=True)
        of.decide(TRIAL_S * place)
    return of


def test_nodes_that_have_met_the_same_peers_in_the_same_order_do_not_all_leave_the_first() -> None:
    hot = [{peer.address for peer in crowd(seed).of_state(PeerState.HOT)} for seed in range(20)]
    assert all(len(of_one) == 4 for of_one in hot)
    assert set().union(*hot) == {address(1, place) for place in range(8)}, "somebody pulls from each"


def test_each_stranger_has_its_turn_within_the_life_of_a_message() -> None:
    of, start_s = crowd(1), int(8 * TRIAL_S)
    heard_s = dict.fromkeys((address(1, place) for place in range(8)), start_s)
    heats = 0
    for now_s in range(start_s, start_s + 4 * 3600, 10):
        if now_s >= of.due_s:
            acts = of.decide(float(now_s))
            heats += len(of_kind(acts, Heat))
            assert len(of_kind(acts, Heat)) == len(of_kind(acts, Cool)) <= 1
        for peer in of.of_state(PeerState.HOT):
            assert now_s - heard_s[peer.address] <= 1800.0
            heard_s[peer.address] = now_s
    assert min(heard_s.values()) >= now_s - 1800.0
    assert heats <= 4 * 3600 / TURN_S + 1, "it costs few requests"


def test_one_place_goes_round_while_those_that_announce_early_keep_theirs() -> None:
    of, start_s = crowd(1), int(8 * TRIAL_S)
    early = [peer.address for peer in of.of_state(PeerState.HOT)][:3]
    heard = set[PeerAddress]()
    for now_s in range(start_s, start_s + 7200, 60):
        for one in early:
            of.was_first(one, float(now_s))
        of.decide(float(now_s))
        hot = {peer.address for peer in of.of_state(PeerState.HOT)}
        assert hot > set(early)
        heard |= hot
    assert heard == {address(1, place) for place in range(8)}


def test_earliness_counts_the_last_hour() -> None:
    peer = KnownPeer(ROOTS[0], PeerSource.SHARED)
    for now_s in range(0, 7200, 100):
        peer.was_first(float(now_s))
    assert 33 <= peer.earliness(7100.0) <= 36 and peer.earliness(20_000.0) == 0 and len(peer.firsts) <= 12


def test_peers_are_asked_for_addresses_two_at_once_and_each_seldom() -> None:
    of = governor(RootGroup(ROOTS, 0, 4))
    of.decide(0.0)
    for root in ROOTS:
        of.opened(root, AGREED, 0.0, is_inbound=False)
    first = of_kind(of.decide(0.0), AskPeers)
    assert len(first) == 2
    for one in first:
        of.told(one, [], 1.0)
    second = of_kind(of.decide(1.0), AskPeers)
    assert set(first) | set(second) == set(ROOTS)
    for one in second:
        of.told(one, [], 2.0)
    assert of_kind(of.decide(500.0), AskPeers) == [] and of.due_s == ASK_S
    assert of_kind(of.decide(ASK_S), AskPeers)


def test_what_is_shared_is_what_we_have_reached_ten_at_most_and_the_same_for_a_while() -> None:
    of = governor(targets=Targets(established=60))
    known = [address(1, place) for place in range(40, 90)]
    of.told(ROOTS[0], known, 0.0)
    now_s = 0.0
    while now_s < 60:
        for one in of_kind(of.decide(now_s), Dial):
            of.opened(one, SILENT, now_s, is_inbound=False)
        now_s += 1
    of.opened(address(2, 200), SILENT, 0.0, is_inbound=True)
    shared = of.share(255, known[0], now_s)
    assert len(shared) == SHARED_MAX and set(shared) < set(known) - {known[0]}
    assert of.share(3, known[0], now_s + 800) == shared[:3]
    hidden = governor(RootGroup(ROOTS, 1, 4, advertise=False))
    hidden.decide(0.0)
    hidden.opened(ROOTS[0], SILENT, 0.0, is_inbound=False)
    assert hidden.share(10, ROOTS[1], 0.0) == (), "a root that is not to be advertised is not"


def test_of_many_connections_those_that_we_dialled_too_many_are_left_at_a_churn() -> None:
    of = governor(targets=Targets(active=0, churn_s=100))
    of.told(ROOTS[0], [address(1, place) for place in range(40, 60)], 0.0)
    for one in of_kind(of.decide(0.0), Dial):
        of.opened(one, SILENT, 0.0, is_inbound=False)
    [left] = of_kind(of.decide(200.0), Hang)
    of.closed(left, 201.0)
    peer = of.get(left)
    assert peer is not None and peer.state is PeerState.COLD and peer.dial_s == 201 + RESTS_S


# -- many nodes ------------------------------------------------------------------------------------------------

NODES = 200


def half_dies(seed: int, many: int) -> PeerWorld:
    """Return a world of so many nodes after half of these have died, two churns later."""
    world = PeerWorld(seed)
    nodes = [world.add(f"45.{number // 200}.{number % 200}.1") for number in range(many)]
    for node in nodes:
        others = [one.address for one in nodes if one is not node]
        world.name_roots(node, world.chance.sample(others, 3))
    world.run(600)
    for node in world.chance.sample(nodes, many // 2):
        world.kill(node)
    world.run(2 * world.targets.churn_s)
    return world


SHOW = """
from rigs.peer_world import PeerWorld
world = PeerWorld(3)
nodes = [world.add(f"45.0.{number}.1") for number in range(8)]
for node in nodes:
    world.name_roots(node, [one.address for one in world.chance.sample(nodes, 3) if one is not node])
world.run(60)
world.kill(nodes[0])
world.run(1200)
print([list(node.links) for node in world.alive()], world.chance.random())
"""


def test_a_seed_repeats_whatever_the_order_of_hashes() -> None:
    def shown(order: str) -> bytes:
        env = {**os.environ, "PYTHONHASHSEED": order, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run([sys.executable, "-c", SHOW], env=env, capture_output=True, check=True).stdout

    assert shown("1") == shown("2")


def check_half_dies(seed: int, many: int = NODES) -> None:
    world = half_dies(seed, many)
    alive = {node.address for node in world.alive()}
    for node in world.alive():
        assert node.hot() & alive, f"seed {seed}: {node.address} pulls from nobody"
    assert world.is_connected(), f"seed {seed}: what one takes does not reach all"


@pytest.mark.parametrize("many", [60, pytest.param(NODES, marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 100))])
def test_half_of_all_nodes_die_and_the_others_stay_one_network(seed: int, many: int) -> None:
    check_half_dies(seed, many)


@pytest.mark.parametrize("seconds", [3600, pytest.param(7200, marks=pytest.mark.long)])
@pytest.mark.parametrize("is_one_prefix", (True, False))
def test_sybils_hold_few_places(is_one_prefix: bool, seconds: float) -> None:
    """Quickly: beyond one churn; among the long tests beyond two."""
    world = PeerWorld(5)
    honest, strange = (20, 50) if seconds > 3600 else (10, 30)
    nodes = [world.add(f"45.1.{number}.1") for number in range(honest)]
    sybils = [world.add(f"46.1.{0 if is_one_prefix else number}.{number + 1}") for number in range(strange)]
    addresses = tuple(one.address for one in sybils)
    for node in nodes:
        world.name_roots(node, world.chance.sample([one.address for one in nodes if one is not node], 3))
    for sybil in sybils:
        world.name_roots(sybil, [one.address for one in nodes], hot=20)
        world.shares[sybil.address] = addresses
    world.run(seconds)
    most = OF_PREFIX_MAX if is_one_prefix else world.targets.active // 2
    for node in nodes:
        assert len(node.hot() & set(addresses)) <= most
        assert node.hot() - set(addresses), "honest ones have their places"
    assert any(node.hot() & set(addresses) for node in nodes), "the sybils were there"


def test_a_peer_that_flaps_costs_a_dial_a_minute() -> None:
    world = PeerWorld(6)
    node, flapping = world.add("45.1.1.1"), world.add("45.2.1.1")
    world.flaps.add(flapping.address)
    world.name_roots(node, [flapping.address])
    world.run(3600)
    assert 15 <= node.dials[flapping.address] <= 60
