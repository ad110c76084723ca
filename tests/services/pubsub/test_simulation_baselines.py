"""Other protocols simulated: they behave as their papers say, and Cyclon's published figures are reproduced."""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import fmean, pstdev

import pytest

from services.pubsub.simulation.baselines.cyclon import SHUFFLE, Cyclon
from services.pubsub.simulation.baselines.gossip import Gossip
from services.pubsub.simulation.baselines.gossipsub import D_HIGH, D_LOW, GossipSub
from services.pubsub.simulation.baselines.hyparview import ACTIVE, PASSIVE, HyParView
from services.pubsub.simulation.baselines.plumtree import Plumtree
from services.pubsub.simulation.comparing import BASELINES, MESSAGES, goals
from services.pubsub.simulation.engine import Engine, Links
from services.pubsub.simulation.figures import ScenarioRun, measure

NODES = 300


def test_a_shuffle_keeps_the_size_of_views_and_evens_out_in_degrees() -> None:
    cyclon = Cyclon(NODES, Random(1), view=20, shuffle=8)
    before = _in_degree_deviation(cyclon)
    cyclon.run(30)
    assert {len(view) for view in cyclon.views} == {20}
    assert all(node not in view for node, view in enumerate(cyclon.views))
    assert _in_degree_deviation(cyclon) < before


def _in_degree_deviation(cyclon: Cyclon) -> float:
    return pstdev(Counter(entry for view in cyclon.views for entry in view).values())


def test_a_shuffle_asks_the_oldest_entry_and_gives_the_own_new_one() -> None:
    cyclon = Cyclon(40, Random(1), view=SHUFFLE, shuffle=SHUFFLE)
    cyclon.run(1)
    assert max(max(view.values()) for view in cyclon.views) == 1
    oldest = [min(view.values()) for view in cyclon.views]
    cyclon.run(20)
    assert min(min(view.values()) for view in cyclon.views) > max(oldest)


@pytest.mark.parametrize("fanout", [2, 4])
def test_gossip_over_all_without_retry_reaches_what_theory_says(fanout: int) -> None:
    """With F random nodes of all, the share reached solves hit = 1 - exp(-F hit)."""
    engine = Engine(1)
    everyone = range(1_000)
    network = Gossip(engine, Links(engine.chance), lambda node: everyone, fanout)
    found = [network.publish(engine.chance.randrange(1_000), lambda node: True).reach(everyone) for _ in range(5)]
    hit = fmean(one.hit for one in found)
    theory = 0.5
    for _ in range(50):
        theory = 1 - 2.718281828459045 ** (-fanout * theory)
    assert hit == pytest.approx(theory, abs=0.02)
    assert fmean(one.copies for one in found) == pytest.approx(fanout * hit, abs=0.01)


def test_a_retry_makes_up_for_the_dead_and_takes_its_time() -> None:
    reached = {}
    for retries in (False, True):
        engine = Engine(2)
        network = Gossip(engine, Links(engine.chance), lambda node: range(NODES), 3, retries)
        live = range(NODES // 2)
        reached[retries] = network.publish(0, lambda node: node < NODES // 2).reach(live)
    assert reached[True].hit > 0.9 > reached[False].hit
    assert reached[True].p99_s > 3 > reached[False].p99_s


def test_the_active_views_of_hyparview_are_symmetric_and_joined() -> None:
    overlay = HyParView(Random(3), lambda one, other: None, lambda one, other: None)
    for _ in range(NODES):
        overlay.join()
    for _ in range(10):
        overlay.cycle()
    assert all(node in overlay.active[peer] for node, view in enumerate(overlay.active) for peer in view)
    assert max(map(len, overlay.active)) <= ACTIVE
    assert max(map(len, overlay.passive)) <= PASSIVE
    seen, open_ends = {0}, [0]
    while open_ends:
        new = set(overlay.active[open_ends.pop()]) - seen
        seen |= new
        open_ends += new
    assert len(seen) == NODES


def test_plumtree_prunes_its_links_to_a_tree() -> None:
    engine = Engine(4)
    network = Plumtree(engine, Links(engine.chance), NODES)
    reach = network.publish(0, lambda node: True).reach(range(NODES))
    assert reach.hit == 1
    assert reach.copies < 1.05


def test_gossipsub_keeps_its_mesh_and_announces_to_those_outside() -> None:
    engine = Engine(5)
    network = GossipSub(engine, Links(engine.chance), NODES)
    assert D_LOW <= min(network.mesh_sizes()) <= max(network.mesh_sizes()) <= D_HIGH
    reach = network.publish(0, lambda node: True).reach(range(NODES))
    assert reach.hit == 1
    assert 4 < reach.copies < 9
    lossy = GossipSub(engine, Links(engine.chance, loss=0.5), NODES)
    assert lossy.publish(0, lambda node: True).reach(range(NODES)).hit > 0.99  # what the mesh loses is announced


@pytest.mark.long  # confirms the simulator; what it is made of is tested above
def test_cyclons_published_shares_come_out_at_300_nodes() -> None:
    for row in measure("baselines", BASELINES, NODES, 3, [1], lambda text: None):
        assert all(row.meets(goal) for goal in row.goals), row


@pytest.mark.long
def test_cyclons_published_figures_come_out_at_10_000_nodes() -> None:
    rows = measure("baselines", BASELINES, 10_000, 3, [1], lambda text: None)
    judged = [(row.setting, goal) for row in rows for goal in row.goals]
    assert len(judged) == len(goals(10_000)) == 3
    assert all(row.meets(goal) for row in rows for goal in row.goals), rows


def test_a_seed_decides_the_run() -> None:
    one, same, other = (list(BASELINES.run(ScenarioRun(60, 3, seed))) for seed in (1, 1, 2))
    assert one == same != other
    assert MESSAGES > 1
