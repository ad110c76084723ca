"""Clocks that neighbours cast doubt on, while messages pass: what a node writes then contradicts nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest

from router.core.log.events import RouterChange
from router.core.wire.lifetime import SECOND_NS
from router.node.wall_clock import LIMITS
from spark_analytics.judgement.claim_sql import LOOK_NS
from world.world import World

AHEAD_S = 7200.0


@pytest.mark.parametrize("seed", range(8))
def test_a_clock_that_is_doubted_in_the_midst_of_a_cycle_moves_all_lines_behind_the_step(seed: int) -> None:
    """The rest of the cycle had the time from before, and an audit took the router for a liar."""
    with World(seed) as world:
        core = world.node("core")
        core.clocks.ahead_ns = int(AHEAD_S * 1e9)
        edge = world.node("edge")
        app = world.app(edge)
        app.publish(world.group("news"), 1)
        world.run(1)
        world.link(edge, core, uplink=True, grants="join store relay")
        for _ in range(400):
            app.publish(world.group("news"), 1)
            world.run(0.005)
        events = [event for logged in edge.log for event in logged.events]
        apart = [(event, event.at_ns - event.mono_ns) for event in events]
        moved = [later[0] for earlier, later in pairwise(apart) if abs(later[1] - earlier[1]) > 1e9]
        assert edge.cycle.wall.is_doubted and moved
        assert all(isinstance(one, RouterChange) and one.event == "clock_step" for one in moved), moved


def test_each_move_of_the_time_in_a_log_is_told_by_a_line() -> None:
    """A dispute goes on by another time when the neighbour's clock is set, and small steps add up: where no line told
    of it, an audit took the router for a liar."""
    with World(1) as world:
        core, edge = world.node("core"), world.node("edge")
        app = world.app(edge)
        world.link(edge, core, uplink=True, grants="join store relay")
        world.run(5)
        for node, ahead_s in ((core, 172_800), (core, -7_200), (core, 0), (edge, 400), (edge, 800), (edge, 0)):
            node.clocks.ahead_ns = int(ahead_s * 1e9)
            for _ in range(40):
                app.publish(world.group("news"), 1)
                world.run(5)
        events = [event for logged in edge.log for event in logged.events]
    steps = [one for one in events if isinstance(one, RouterChange) and one.event == "clock_step"]
    told_ns, moved_ns = events[0].at_ns - events[0].mono_ns, 0
    for event in events:
        apart_ns = event.at_ns - event.mono_ns
        if any(0 <= step.mono_ns - event.mono_ns <= LOOK_NS for step in steps):
            told_ns = apart_ns
        moved_ns = max(moved_ns, abs(apart_ns - told_ns))
    assert len(steps) >= 4 and 2 * moved_ns <= LIMITS.clock_offset_s_max * SECOND_NS
