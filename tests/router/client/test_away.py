"""An app that wants to know is told once when its node goes away, and once when it is back."""

from __future__ import annotations

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import OPEN, sign_on
from trio.testing import MockClock

import router
from router import NodeUnavailable


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


async def test_who_listens_hears_once_that_the_node_is_away_and_back(
    end: RouterEnd, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    said: list[str] = []
    async with sign_on(end, on_away=said.append) as node:
        await node.join(OPEN)
        end.cut()
        await node.send(node.key, b"up again at the first attempt", plain=True)
        assert not said
        end.stop()
        await trio.sleep(300)
        assert len(said) == 1 and said[0].startswith("the node is away, waiting for it: nobody in this process")
        again = RouterEnd()
        await nursery.start(again.run)
        await trio.sleep(300)
        assert said[1:] == ["the node is back"]


async def test_who_waits_for_a_node_hears_that_it_is_away_from_the_beginning() -> None:
    said: list[str] = []
    async with router.connect(url="memory://nobody", when_down="queue", on_away=said.append):
        assert len(said) == 1
    said.clear()
    with pytest.raises(NodeUnavailable):
        async with router.connect(url="memory://nobody", on_away=said.append):
            raise AssertionError
    assert not said
