"""Settlings alone wait a moment for others before a transaction, but not where a neighbour has more queued."""

from __future__ import annotations

import pytest

from router.core.routing.job import Job
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.node.cycle import Cycle, Heard, may_wait
from router.node.link_events import NeighbourSettled
from world.app import Habits
from world.world import World


@pytest.mark.parametrize(("window", "waited"), [(8, {True}), (2, {True, False})])
def test_settlings_wait_for_more_unless_they_make_room(
    window: int, waited: set[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    hear, found = Cycle.hear, list[bool]()

    def looked_at(cycle: Cycle, heard: Heard) -> Job | None:
        is_first = not cycle.has_work
        job = hear(cycle, heard)
        if isinstance(heard, NeighbourSettled) and is_first:
            assert cycle.wakes
            found.append(may_wait(cycle))
        return job

    with World(1) as world:
        core = world.node("core")
        reader = world.app(core, "reader", habits=Habits(window_messages=window))
        writer = world.app(core, "writer")
        world.run_until_quiet()
        monkeypatch.setattr(Cycle, "hear", looked_at)
        expiry = expiry_min(writer.time.now().wall_s + 600)
        for number in range(6):
            writer.put(seal_unicast(writer.key, reader.key.public, b"%d" % number, ttl_s=60, expiry_min=expiry))
        world.run_until_quiet()
        assert len(reader.diary.handled) == 6 and set(found) == waited


@pytest.mark.parametrize(("features", "waits_long"), [((), True), (("outcome",), False)])
def test_settlings_wait_long_where_nobody_waits_for_outcomes(
    features: tuple[str, ...], waits_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear, found = Cycle.hear, list[bool]()

    def looked_at(cycle: Cycle, heard: Heard) -> Job | None:
        job = hear(cycle, heard)
        if isinstance(heard, NeighbourSettled):
            found.append(cycle.is_awaited)
        return job

    with World(1) as world:
        core = world.node("core")
        reader, writer = world.app(core, "reader"), world.app(core, "writer", habits=Habits(features=features))
        world.run_until_quiet()
        monkeypatch.setattr(Cycle, "hear", looked_at)
        expiry = expiry_min(writer.time.now().wall_s + 600)
        writer.put(seal_unicast(writer.key, reader.key.public, b"news", ttl_s=60, expiry_min=expiry))
        world.run_until_quiet()
        assert found == [not waits_long]
        core.cycle.drain()
        core.cycle.hear(NeighbourSettled(1, 1))
        assert core.cycle.is_awaited, "whoever stops the node waits for it"
