"""Questions to the node: each gets its own answer, even if answers are late or lost."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import sign_on
from trio.testing import MockClock, wait_all_tasks_blocked

from router import NodeUnavailable, NotAnswered
from router.client.asking import BESIDE_MAX
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
        with pytest.raises(NotAnswered, match="the service bell did not answer within 30 s; `router status` says"):
            await node.ask("service", "bell rings")
        with trio.move_on_after(1):
            await node.ask("groups")
        end.answers = True
        for late in ("status", "service", "groups"):
            end.link_to(node.key).answer(Inquiry(late))
        assert await node.ask("peers") == b'{"asked": "peers "}'
        assert repr(node._asking) == "<asking the node: 0 questions are open>"


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


async def test_numbered_questions_go_side_by_side_in_their_order_and_a_lost_answer_delays_none(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    end.numbers = True
    async with sign_on(end) as node:
        end.answers = False
        ended = [await node.begin_asking(word, "{}") for word in ("lost", "one", "two", "three")]
        await wait_all_tasks_blocked()
        asked = end.inquiries
        assert [one.ask for one in asked] == ["lost", "one", "two", "three"]
        for one in reversed(asked[1:]):
            end.link_to(node.key).answer(one)
        begun_s = trio.current_time()
        assert [await one() for one in ended[1:]] == [
            f'{{"asked": "{word} {{}}"}}'.encode() for word in ("one", "two", "three")
        ]
        assert trio.current_time() - begun_s < 1
        with pytest.raises(NotAnswered, match="within 30 s"):
            await ended[0]()
        end.link_to(node.key).answer(asked[0])  # late
        end.answers = True
        assert await (await node.begin_asking("four", "{}"))() == b'{"asked": "four {}"}'
        assert await node.ask("five") == b'{"asked": "five "}', "and one without a number"


async def test_questions_that_are_open_have_a_bound_and_end_with_the_connection(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    end.numbers, end.answers = True, False
    async with sign_on(end, when_down="queue") as node:
        ended = [await node.begin_asking("status", "") for _ in range(BESIDE_MAX)]
        with trio.move_on_after(1) as patience:
            await node.begin_asking("status", "")
        assert patience.cancelled_caught, "it waits for a place"
        await wait_all_tasks_blocked()
        end.cut()
        for one in ended:
            with pytest.raises(NodeUnavailable, match="ask again"):
                await one()


async def test_a_router_that_repeats_no_numbers_is_asked_one_question_at_a_time(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        ended = [await node.begin_asking(word, "x") for word in ("one", "two")]
        assert [await one() for one in ended] == [b'{"asked": "one x"}', b'{"asked": "two x"}']


async def test_a_slow_question_of_an_app_holds_up_no_other_where_the_router_repeats_all_numbers(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    end.numbers = end.numbers_all = True
    end.answers = False
    answers: dict[str, bytes] = {}
    async with sign_on(end) as node, trio.open_nursery() as nursery:

        async def ask(word: str, timeout_s: float = 30) -> None:
            answers[word] = await node.ask(word, timeout_s=timeout_s)

        async def ask_in_vain() -> None:
            with pytest.raises(NotAnswered, match='did not answer "slow" within 9 s'):
                await node.ask("slow", timeout_s=9)

        nursery.start_soon(ask_in_vain)
        for word in ("why", "status", "peers"):
            nursery.start_soon(ask, word)
        await wait_all_tasks_blocked()
        nursery.start_soon(partial(ask, "why"))
        await wait_all_tasks_blocked()
        asked = [one.ask for one in end.inquiries]
        assert sorted(asked) == ["peers", "slow", "status", "why"], "one question about a message at a time"
        for inquiry in reversed(end.inquiries):
            if inquiry.ask != "slow":
                end.link_to(node.key).answer(inquiry)
        begun_s = trio.current_time()
        await wait_all_tasks_blocked()
        assert set(answers) == {"why", "status", "peers"} and trio.current_time() == begun_s
        assert answers["status"] == b'{"asked": "status "}'
        end.link_to(node.key).answer(end.inquiries[-1])


async def test_a_question_that_finds_no_place_ends_in_its_time(end: RouterEnd, autojump_clock: MockClock) -> None:
    end.numbers = end.numbers_all = True
    end.answers = False
    async with sign_on(end) as node, trio.open_nursery() as nursery:

        async def ask_in_vain(timeout_s: float) -> None:
            begun_s = trio.current_time()
            with pytest.raises(NotAnswered):
                await node.ask("status", timeout_s=timeout_s)
            assert trio.current_time() - begun_s == pytest.approx(timeout_s)

        for _ in range(BESIDE_MAX):
            nursery.start_soon(ask_in_vain, 20)
        await wait_all_tasks_blocked()
        await ask_in_vain(5)
        assert len(end.inquiries) == BESIDE_MAX
