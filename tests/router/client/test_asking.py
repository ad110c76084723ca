"""Questions to the node: each gets its own answer, even if answers are late or lost."""

from __future__ import annotations

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import sign_on
from trio.testing import MockClock, wait_all_tasks_blocked

from router import NodeUnavailable, NotAnswered
from router.core.wire.admin import Inquiry


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


async def test_ask(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        assert await node.ask("status") == b'{"asked": "status "}'
        assert await node.ask("drop", "everything") == b'{"asked": "drop everything"}'


async def test_one_question_at_a_time(end: RouterEnd) -> None:
    answers: dict[str, bytes] = {}
    async with sign_on(end) as node, trio.open_nursery() as nursery:

        async def ask(word: str) -> None:
            answers[word] = await node.ask(word)

        for word in ("status", "peers", "queue"):
            nursery.start_soon(ask, word)
    assert all(answers[word] == f'{{"asked": "{word} "}}'.encode() for word in ("status", "peers", "queue"))


async def test_a_late_answer_is_not_taken_for_the_next(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end) as node:
        end.answers = False
        with pytest.raises(NotAnswered, match='"status" within 30 s'):
            await node.ask("status")
        with trio.move_on_after(1):
            await node.ask("groups")
        end.answers = True
        for late in ("status", "groups"):
            end.link_to(node.key).answer(Inquiry(late))
        assert await node.ask("peers") == b'{"asked": "peers "}'
        assert repr(node._asking) == "<asking the node: nothing is open>"


async def test_a_lost_connection_ends_the_question(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, when_down="queue") as node:
        end.answers = False
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(NodeUnavailable, match="ask again"):
                    await node.ask("status")

            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            end.cut()
        end.answers = True
        assert await node.ask("peers") == b'{"asked": "peers "}'


async def test_the_same_question_is_asked_however_often_within_a_minute(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        for _ in range(200):
            assert await node.ask("status") == b'{"asked": "status "}'
