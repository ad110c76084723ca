"""Clocks that neighbours cast doubt on, while messages pass: what a node writes then contradicts nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest

from router.core.log.events import RouterChange
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
