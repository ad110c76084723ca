"""A core that has missed many large messages has them soon, though its neighbour answers few questions at once."""

from __future__ import annotations

from functools import partial

import pytest

from router.core.routing.limits import CoreLimits, PullLimits
from services.pubsub.core.comparison import comparing
from services.pubsub.core.comparison.plan import CompareLimits
from world.app import Habits
from world.country import Country
from world.node import Settings
from world.world import World

COUNT, SIZE = 100, 2_000
BYTES_PER_S = 4 * SIZE
"""A router answers four PULLs for such messages at once, and as many a second: fewer than are asked in ten seconds."""


def test_core_that_was_away_fetches_large_messages_though_few_are_answered_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Questions beyond those counted as left unanswered by a silent router: after ten seconds no more was asked, and
    apps were told that nobody had the rest."""
    monkeypatch.setattr(comparing, "CompareLimits", partial(CompareLimits, have_max=0))  # nothing is sent on unasked
    limits = CoreLimits(pulls=PullLimits(routers_bytes_per_s=BYTES_PER_S))
    with World(7) as world:
        group = world.group("news")
        country = Country(world, 3, (), Settings(strangers=True, limits=limits), Habits())
        writer, *_ = [country.reader(place, [group], Habits()) for place in country.cores]
        world.run(5)
        away = country.cores[-1].node
        cables = [one for one in country.between if away in (one.one, one.other)]
        for cable in cables:
            world.part(cable)
        for _ in range(COUNT // 25):
            country.publish(writer, group, 25, size=SIZE)
            world.run(1)
        world.run(30)
        for cable in cables:
            world.heal(cable)
        told: list[list[int]] = []  # in the end the next comparison brings what was given up
        while (country.lacking() or country.under_way()) and len(told) < 20:
            world.run(5)
            told.append([place.rules.known.topics[group.public].missing for place in country.cores])
        assert 5 < len(told) < 20 and told == [[0, 0, 0]] * len(told)
