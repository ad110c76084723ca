"""Causal order at an app: joined, pulled past a full window, through crashes with a journal, and from the beginning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import FAMILY, OPEN, settled, sign_on, take
from samples.histories import ANN, BOB, EVE, Talk
from trio.testing import MockClock, wait_all_tasks_blocked

from router.client.custody.asks import AskLimits
from router.client.errors import ClientError
from router.client.ordering import GAP_S, ORDER_LIMITS
from router.client.received import Received
from router.core.wire.admin import ASK_BYTES_MAX, encode_inquiry
from router.core.wire.link_items import Missed
from router.core.wire.message import with_via
from router.core.wire.reasons import Reason


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


def names(messages: list[Received]) -> list[str]:
    return [one.body.decode().rstrip() for one in messages]


async def test_a_message_comes_after_its_causes_and_unsettled_till_then(end: RouterEnd) -> None:
    talk = Talk()
    talk.say("one", by=BOB), talk.say("two", "one"), talk.say("three", "two", by=BOB)
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        await wait_all_tasks_blocked()
        for name in ("three", "two"):
            end.publish(talk.wires[name])
        with trio.move_on_after(0):
            await take(group, 1)
        assert settled(end, node) == 1, "the JOIN_ACK"
        end.publish(talk.wires["one"])
        messages = await take(group, 3)
        assert names(messages) == ["one", "two", "three"] and not any(one.missing or one.late for one in messages)
        await messages[-1].settle()
        await wait_all_tasks_blocked()
        assert not end.queues[node.key].wires


async def test_a_full_window_does_not_shut_out_what_it_waits_for(end: RouterEnd) -> None:
    """Four messages fill the window, and the one that all of them follow comes after: it gets past the window by
    PULL."""
    talk = Talk()
    talk.say("known", by=BOB), talk.say("behind", "known", by=BOB)
    async with sign_on(end, window_messages=4) as node:
        group = await node.join(FAMILY, order="causal")
        loop = group.messages()
        end.publish(talk.wires["known"])
        assert (await anext(loop)).body == b"known"
        for number in range(4):
            end.publish(talk.say(f"{number}", "behind", *([f"{number - 1}"] if number else [])))
        for name in ("behind",):
            end.publish(talk.wires[name])
        messages = [await anext(loop) for _ in range(5)]
        assert names(messages) == ["behind", "0", "1", "2", "3"] and not any(one.missing for one in messages)
        end.publish(talk.say("after", "3"))
        assert (await anext(loop)).body == b"after", "the copy of what was pulled is settled and not given again"
        await wait_all_tasks_blocked()
        assert end.pulls == [talk.id("behind")] and len(end.queues[node.key].wires) == 1, "the last is in hand"


async def test_what_is_in_the_queue_is_no_history_though_its_sender_was_never_heard(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    """The window is full of messages that follow it: the node answers that it owes the message, which comes however
    long that takes."""
    talk = Talk()
    talk.say("behind", by=BOB)
    async with sign_on(end, window_messages=2) as node:
        group = await node.join(FAMILY, order="causal")
        for wire in (talk.say("x", "behind"), talk.say("y", "x"), talk.wires["behind"]):
            end.publish(wire)
        messages = await take(group, 3)
        assert names(messages) == ["behind", "x", "y"] and not any(one.missing or one.late for one in messages)
        assert end.pulls == [talk.id("behind")] * 2 and len(end.inquiries) == 1


async def test_a_chain_behind_a_full_window_is_pulled_one_by_one(end: RouterEnd) -> None:
    talk = Talk()
    talk.say("known", by=BOB), talk.say("a", "known", by=BOB), talk.say("b", "a", by=BOB), talk.say("c", "b", by=BOB)
    async with sign_on(end, window_messages=2) as node:
        group = await node.join(FAMILY, order="causal")
        loop = group.messages()
        end.publish(talk.wires["known"])
        await anext(loop)
        for wire in (talk.say("x", "c"), talk.say("y", "x"), *(talk.wires[one] for one in ("c", "b", "a"))):
            end.publish(wire)
        assert names([await anext(loop) for _ in range(5)]) == ["a", "b", "c", "x", "y"]


@pytest.mark.parametrize("size", [0, 200_000])
async def test_a_window_full_of_what_waits_in_vain_goes_on(
    end: RouterEnd, size: int, autojump_clock: MockClock
) -> None:
    """The missing message is nowhere, or too large for an answer: the window opens after `full_s`, not after
    `gap_s`."""
    talk = Talk()
    talk.say("large", by=BOB, size=size)
    async with sign_on(end, window_messages=4, window_bytes=100_000) as node:
        group = await node.join(FAMILY, order="causal")
        for number in range(4):
            end.publish(talk.say(f"{number}", "large"))
        if size:
            end.publish(talk.wires["large"])
        began_s = trio.current_time()
        messages = await take(group, 1)
        assert trio.current_time() - began_s == ORDER_LIMITS.full_s
        messages += await take(group, 3 + bool(size))
        assert names(messages) == ["0", "1", "2", "3", *["large"] * bool(size)]
        assert messages[0].missing == (talk.id("large"),) and messages[-1].late is bool(size)
        assert trio.current_time() - began_s == GAP_S


async def test_what_comes_after_a_later_message_of_its_sender_is_late_though_none_named_it(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    """The later one names what somebody else has said in between, which is missing as well."""
    talk = Talk()
    talk.say("one", by=BOB), talk.say("answer", "one", by=EVE), talk.say("two", "answer", by=BOB)
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        messages = []
        for name in ("two", "one", "answer"):
            end.publish(talk.wires[name])
            messages += await take(group, 1)
        assert names(messages) == ["two", "one", "answer"] and messages[0].missing == (talk.id("answer"),)
        assert [one.late for one in messages] == [False, True, True]


async def test_what_does_not_come_is_asked_for_again_and_named_after_the_gap(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    talk = Talk()
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        end.publish(talk.say("effect", "lost"))
        began_s = trio.current_time()
        [effect] = await take(group, 1)
        assert trio.current_time() - began_s == GAP_S and effect.missing == (talk.id("lost"),)
        assert 4 <= len(end.pulls) <= 6 and set(end.pulls) == {talk.id("lost")}
        end.publish(talk.say("another", "lost", by=EVE))
        [another] = await take(group, 1)
        assert another.missing == effect.missing, "it is not waited for twice"


async def test_the_router_that_named_what_is_missing_is_named_to_the_own_one(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    talk = Talk()
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        for number in range(20):
            end.publish(with_via(talk.say(f"{number}", f"lost {number}"), BOB.public))
        end.publish(talk.say("from here", "lost here", by=EVE))
        await take(group, 21)
        said = [json.loads(one.argument) for one in end.inquiries]
        assert {one.ask for one in end.inquiries} == {"pull"} and {one["router"] for one in said} == {BOB.public.hex()}
        assert {one["group"] for one in said} == {FAMILY.group.hex()}
        named = Counter(id for one in said for id in one["ids"])
        assert named.keys() == {talk.id(f"lost {number}").hex() for number in range(20)}
        assert all(named[id.hex()] < end.pulls.count(id) for id in end.pulls), "first the own router alone"
        assert max(len(encode_inquiry(one)) for one in end.inquiries) <= ASK_BYTES_MAX


async def test_a_new_reader_does_not_ask_back_to_the_beginning(end: RouterEnd, autojump_clock: MockClock) -> None:
    """A message that the node gets because it was asked for is given; its older causes are waited for one second."""
    talk, later_on = Talk(), 3.5
    for number in range(5):
        talk.say(f"{number}", *([f"{number - 1}"] if number else []), by=BOB)
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        began_s = trio.current_time()
        end.publish(with_via(talk.say("now", "4"), EVE.public))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                partial(act_later, later_on, partial(end.publish, with_via(talk.wires["4"], EVE.public)))
            )
            messages = await take(group, 2)
        assert names(messages) == ["4", "now"] and messages[0].missing == (talk.id("3"),) and not messages[1].missing
        assert trio.current_time() - began_s == later_on + ORDER_LIMITS.old_s
        assert not any(talk.id("3").hex() in one.argument for one in end.inquiries)


async def act_later(pause_s: float, act: Callable[[], None]) -> None:
    await trio.sleep(pause_s)
    act()


async def test_the_gap_is_chosen_when_joining(end: RouterEnd, autojump_clock: MockClock) -> None:
    talk = Talk()
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal", gap_s=3)
        end.publish(talk.say("effect", "lost"))
        began_s = trio.current_time()
        await take(group, 1)
        assert trio.current_time() - began_s == 3


async def test_what_was_said_before_the_app_came_is_named_and_not_given(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    talk = Talk()
    for name in ("old", "older"):
        end.stored[talk.id(name)] = talk.say(name, by=BOB)
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        end.publish(talk.say("first", "old", "older"))
        end.publish(talk.say("second", "old", by=EVE))
        began_s = trio.current_time()
        messages = await take(group, 2)
        assert names(messages) == ["first", "second"]
        assert messages[0].missing == talk.ids(["old", "older"])
        assert trio.current_time() == began_s, "the node says that it owes them nothing of it"


async def test_what_the_node_says_was_missed_is_pulled_and_given_with_a_journal(
    end: RouterEnd, tmp_path: Path, autojump_clock: MockClock
) -> None:
    talk = Talk()
    talk.say("handled", by=BOB), talk.say("dropped", "handled", by=BOB), talk.say("also dropped", "dropped", by=EVE)
    for run in range(2):
        async with sign_on(end, b"n", journal=tmp_path / "journal") as node:
            group = await node.join(FAMILY, order="causal")
            if not run:
                end.publish(talk.wires["handled"])
                await (await take(group, 1))[0].settle()
                continue
            end.stored |= {talk.id(name): wire for name, wire in talk.wires.items()}
            missed = Missed(FAMILY.group, 2, talk.id("dropped"), talk.id("also dropped"), Reason.QUEUE_FULL_RECIPIENT)
            end.link_to(node.key).say(missed)
            end.publish(talk.say("here", "also dropped"))
            messages = await take(group, 3)
            assert names(messages) == ["dropped", "also dropped", "here"] and not messages[-1].missing
            assert talk.id("handled") not in end.pulls


async def test_with_a_journal_the_order_survives_a_crash(end: RouterEnd, tmp_path: Path) -> None:
    """A later run knows which messages were given and published, and names them in those it publishes."""
    talk = Talk()
    talk.say("question", by=BOB)
    async with sign_on(end, b"n", journal=tmp_path / "journal") as node:
        group = await node.join(FAMILY, order="causal")
        end.publish(talk.wires["question"])
        loop = group.messages()
        await anext(loop)
        async with sign_on(end) as other:
            await other.join(FAMILY)
            mine = await group.publish(b"answer")
        with trio.move_on_after(0):
            await anext(loop)
        end.link_to(node.key).hears_settled = False
    async with sign_on(end, b"n", journal=tmp_path / "journal") as node, sign_on(end) as other:
        group, theirs = await node.join(FAMILY, order="causal"), await other.join(FAMILY)
        talk.wires["answer"] = b""
        talk.id = lambda name: mine if name == "answer" else Talk.id(talk, name)  # type: ignore[method-assign]
        end.publish(talk.say("thanks", "answer", "question", by=BOB))
        [thanks] = await take(group, 1)
        assert thanks.body == b"thanks" and not thanks.missing and not end.pulls
        await group.publish(b"welcome")
        [_, welcome] = await take(theirs, 2)
        assert set(welcome.deps) == {thanks.id}
    async with sign_on(end, b"m", journal=tmp_path / "other") as node, sign_on(end) as other:
        await other.join(FAMILY)
        await node.group(FAMILY).publish(b"nothing follows what another app has handled")


async def test_what_a_later_run_publishes_follows_what_an_earlier_one_read(end: RouterEnd, tmp_path: Path) -> None:
    talk = Talk()
    talk.say("question", by=BOB)
    for run in range(2):
        async with sign_on(end, b"n", journal=tmp_path / "journal") as node, sign_on(end) as other:
            group, theirs = await node.join(FAMILY), await other.join(FAMILY)
            if not run:
                end.publish(talk.wires["question"])
                await (await take(group, 1))[0].settle()
                continue
            await group.publish(b"answer")
            [answer] = await take(theirs, 1)
            assert answer.deps == (talk.id("question"),)


async def test_an_answer_names_what_its_author_holds_and_nothing_that_this_names(end: RouterEnd) -> None:
    talk = Talk()
    talk.say("one", by=BOB), talk.say("two", "one", by=EVE)
    async with sign_on(end) as node, sign_on(end) as other:
        group, theirs = await node.join(FAMILY), await other.join(FAMILY)
        for name in ("one", "two"):
            end.publish(talk.wires[name])
        await take(group, 2)
        await group.publish(b"answer")
        answer = (await take(theirs, 3))[-1]
        assert answer.deps == (talk.id("two"),) and answer.seen == talk.ids(["two", "one"])


async def test_one_that_cannot_be_read_holds_up_nothing(end: RouterEnd) -> None:
    talk = Talk()
    talk.say("changed", by=BOB)
    wire = talk.wires["changed"]
    talk.wires["changed"] = wire[:200] + bytes((wire[200] ^ 1,)) + wire[201:]
    async with sign_on(end, on_problem=lambda text: None) as node:
        group = await node.join(FAMILY, order="causal")
        end.publish(talk.say("effect", "changed"))
        end.publish(talk.wires["changed"])
        [effect] = await take(group, 1)
        assert effect.body == b"effect" and not effect.missing


async def test_two_groups_and_unicasts_in_one_loop(end: RouterEnd) -> None:
    talk = Talk()
    talk.say("cause", by=BOB)
    async with sign_on(end) as node, sign_on(end) as other:
        await node.join(FAMILY, order="causal")
        await node.join(OPEN)
        end.publish(talk.say("effect", "cause"))
        await other.group(OPEN).publish(b"open")
        await other.send(node.key, b"direct")
        end.publish(talk.wires["cause"])
        assert names(await take(node, 4)) == ["open", "direct", "cause", "effect"]


async def test_two_loops_share_what_becomes_free_at_once(end: RouterEnd) -> None:
    talk, got = Talk(), list[str]()
    talk.say("cause", by=BOB)

    async def work(group: object, idle: trio.Event) -> None:
        async for message in group:  # type: ignore[attr-defined]
            got.append(message.body.decode())
            await idle.wait()

    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(work, group, trio.Event())
            for one in (talk.say("x", "cause"), talk.say("y", "cause", by=EVE)):
                end.publish(one)
            await wait_all_tasks_blocked()
            assert got == []
            end.publish(talk.wires["cause"])
            await wait_all_tasks_blocked()
            assert got == ["cause", "x", "y"], "each loop has one in its hand"
            nursery.cancel_scope.cancel()


async def test_a_lost_connection_changes_nothing(end: RouterEnd) -> None:
    talk = Talk()
    talk.say("cause", by=BOB)
    async with sign_on(end, b"n") as node:
        group = await node.join(FAMILY, order="causal")
        loop = group.messages()
        end.publish(talk.say("effect", "cause"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.sleep, 0))
            with trio.move_on_after(0.01):
                await anext(loop)
        end.cut()
        await node.until_up()
        end.publish(talk.wires["cause"])
        assert [(await anext(loop)).body for _ in range(2)] == [b"cause", b"effect"]
        with trio.move_on_after(0):
            await anext(loop)
        await wait_all_tasks_blocked()
        assert not end.queues[node.key].wires, "what waited through the cut is settled on the new connection"


async def test_a_cause_that_the_node_had_before_it_was_killed_is_waited_for_when_it_is_back(
    end: RouterEnd, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The node owes the cause, and is killed before it can answer so, or bring it."""
    talk, end.answers = Talk(), False
    cause = end.stored[talk.id("cause")] = talk.say("cause", by=BOB)
    async with sign_on(end, b"n", when_down="queue") as node:
        group = await node.join(FAMILY, order="causal")
        end.publish(talk.say("effect", "cause"))
        with trio.move_on_after(GAP_S / 4):
            await take(group, 1)
        assert end.pulls == [talk.id("cause")]
        end.stop()
        with trio.move_on_after(GAP_S / 4):
            raise AssertionError(f"given without its cause: {names(await take(group, 1))}")
        end.owe(node.key, cause)
        end.answers = True
        await nursery.start(end.run)
        messages = await take(group, 2)
        assert names(messages) == ["cause", "effect"] and not any(one.missing for one in messages)


async def test_what_a_member_invents_is_asked_for_within_bounds(end: RouterEnd, autojump_clock: MockClock) -> None:
    """A member names 256 invented causes: at most 16 questions a second are sent, and other messages do not wait for
    all of them."""
    talk = Talk()
    async with sign_on(end) as node:
        group = await node.join(FAMILY, order="causal")
        end.publish(talk.say("forged", *(f"invented {number}" for number in range(256)), by=EVE))
        end.publish(talk.say("honest", "lost", by=BOB))
        messages = await take(group, 2)
        assert [len(one.missing) for one in messages] == [256, 1]
        assert len(end.pulls) <= AskLimits().open_max * (GAP_S + 1)
        assert end.pulls.index(talk.id("lost")) <= 32, "before the other 240 invented ones"


async def test_a_cause_of_another_group_is_named_as_missing_and_takes_nothing_from_either(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    """The router has that message, and the app was given it, but in this group it was never published."""
    talk = Talk()
    async with sign_on(end) as node, sign_on(end) as other:
        group, elsewhere = await node.join(FAMILY, order="causal"), await node.join(OPEN)
        talk.wires["of another group"] = b""
        said = await other.group(OPEN).publish(b"open")
        talk.id = lambda name: said if name == "of another group" else Talk.id(talk, name)  # type: ignore[method-assign]
        end.publish(talk.say("effect", "of another group", by=EVE))
        end.publish(talk.say("honest", by=BOB))
        assert [one.missing for one in await take(group, 2)] == [(), (said,)]
        assert names(await take(elsewhere, 1)) == ["open"]


async def test_orders_that_cannot_be(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        for group, more in ((OPEN, {}), (FAMILY, {"raw": True})):
            with pytest.raises(ClientError, match="sealed"):
                await node.join(group, order="causal", **more)
        with pytest.raises(ClientError, match="sideways"):
            await node.join(FAMILY, order="sideways")  # type: ignore[arg-type]
        await node.join(FAMILY)
        await node.join(FAMILY, order="causal")
        with pytest.raises(ClientError, match="already"):
            await node.join(FAMILY)
    assert ANN.public != BOB.public
