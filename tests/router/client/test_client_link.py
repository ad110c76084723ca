"""Broken connections and nodes that go away: nothing is lost, doubled or reordered, and nobody hangs."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import FAMILY, OPEN, raw_wires, sign_on, take
from trio.testing import MockClock, wait_all_tasks_blocked

import router
from router import Node, NodeUnavailable
from router.client.link import RETRY
from router.core.wire import link_items as link
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.message import Unicast, message_id, open_message
from router.core.wire.reasons import Reason
from router.transport.contract import ConnectFailed
from transports import memory


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


async def publish_all(node: Node, bodies: list[bytes], ids: list[MessageId]) -> None:
    async with node.group(OPEN).publisher() as publisher:
        ids += [await publisher.publish(body) for body in bodies]


async def test_unsettled_messages_are_sent_again_byte_for_byte(end: RouterEnd, autojump_clock: MockClock) -> None:
    bodies, ids = [b"%d" % number for number in range(5)], list[MessageId]()
    async with sign_on(end) as bob, sign_on(end, b"n") as node:
        await bob.join(OPEN)
        await node.join(FAMILY)
        end.holding = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish_all, node, bodies, ids)
            await wait_all_tasks_blocked()
            first = end.heard[-1][1:]
            end.holding = False
            end.link_to(node.key).scope.cancel()
        again = end.heard[-1]
        join = open_message(again[0])
        assert isinstance(join, Unicast) and join.destination == end.key.public  # the JOIN goes first
        assert again[1:] == first and [message_id(wire) for wire in first] == ids
        assert [one.body for one in await take(await bob.join(OPEN), 5)] == bodies


async def test_duplicates_are_settled_not_delivered_twice(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, b"b") as bob, sign_on(end, b"n") as node:
        his = await bob.join(OPEN)
        theirs = end.link_to(node.key)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.group(OPEN).publish, b"once")
            theirs.session.settle = lambda n, refusals=(): 0  # type: ignore[method-assign]
            await wait_all_tasks_blocked()  # accepted, but the settling never arrives
            assert len(end.accepted) == 1
            theirs.scope.cancel()
        assert end.bodies(-1) == [b"once"]
        await node.group(OPEN).publish(b"twice")
        assert [one.body for one in await take(his, 2)] == [b"once", b"twice"]


async def test_a_lost_connection_shows_no_message_twice(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN)
        for wire in raw_wires(4):
            end.publish(wire)
        loop = group.messages()
        seen = [await anext(loop) for _ in range(2)]  # the second is held
        await wait_all_tasks_blocked()
        end.cut()
        await node.send(node.key, b"up again", plain=True)
        assert len(end.hellos) == 2
        seen += [await anext(loop) for _ in range(2)]
        assert [one.body for one in seen] == [b"0", b"1", b"2", b"3"]
        assert not any(one.redelivered for one in seen)
        with trio.move_on_after(1):
            await anext(loop)
        assert [open_message(wire).body for wire in end.queues[node.key].wires] == [b"up again"]


async def test_what_was_handled_while_away_is_settled_later(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN)
        for wire in raw_wires(3):
            end.publish(wire)
        await wait_all_tasks_blocked()
        end.link_to(node.key).scope.cancel()
        assert [one.body for one in await take(group, 3)] == [b"0", b"1", b"2"]
        await node.send(SigningKey(b"x" * 32).public, b"up again", plain=True)
        with trio.move_on_after(1):
            await take(group, 1)
        assert not end.queues[node.key].wires


async def test_messages_of_two_lost_connections_do_not_pile_up(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, window_messages=4) as node:  # a throwaway key: nothing comes again
        group = await node.join(OPEN)
        for _ in range(3):
            for wire in raw_wires(4):
                end.publish(wire[:-1] + bytes((end.key.seed[len(end.hellos)],)))
            await wait_all_tasks_blocked()
            end.cut()
            await node.send(SigningKey(b"x" * 32).public, b"up again", plain=True)
            await wait_all_tasks_blocked()
        assert len(await take(group, 4)) == 4
        assert node.problems.total == 2 and "4 messages" in node.problems.unread()[0]


async def test_an_app_that_died_sees_what_it_had_not_settled_again(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN)
        for wire in raw_wires(4):
            end.publish(wire)
        assert [one.body for one in await take(group, 3)] == [b"0", b"1", b"2"]
    async with sign_on(end, b"n") as node:
        seen = await take(await node.join(OPEN), 2)
        assert [(one.body, one.redelivered) for one in seen] == [(b"2", True), (b"3", True)]
        for wire in raw_wires(5)[4:]:
            end.publish(wire)
        assert [(one.body, one.redelivered) for one in await take(node, 1)] == [(b"4", False)]


async def test_the_end_is_said_on_a_later_connection_too(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN)
        end.cut()
        await node.send(SigningKey(b"x" * 32).public, b"up again", plain=True)
        for wire in raw_wires(2):
            end.publish(wire)
        await take(group, 2)
    await wait_all_tasks_blocked()
    assert len(end.goodbyes) == 1 and len(end.queues[node.key].wires) == 1


async def test_groups_are_joined_again(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end) as node:
        group = await node.join(OPEN)
        await node.join(FAMILY)
        end.cut()
        await wait_all_tasks_blocked()
        assert not end.members[OPEN.public]  # a throwaway key leaves with its connection
        await node.send(node.key, b"up again", plain=True)
        end.publish(raw_wires(1)[0])
        assert [one.body for one in await take(group, 1)] == [b"0"]
        assert node.key in end.members[FAMILY.group]


async def test_a_group_refused_at_a_later_connection_is_a_problem(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end) as node:
        await node.join(OPEN)
        end.join_answer = False
        end.cut()
        assert "refused to let this app join" in await anext(node.problems)


async def test_a_join_survives_a_lost_connection(end: RouterEnd, autojump_clock: MockClock) -> None:
    end.join_answer = None
    async with sign_on(end) as node, trio.open_nursery() as nursery:
        nursery.start_soon(node.join, OPEN)
        await wait_all_tasks_blocked()
        assert OPEN.public not in end.members or node.key not in end.members[OPEN.public]
        end.join_answer = True
        end.cut()
        await node.send(node.key, b"up again", plain=True)
        assert node.key in end.members[OPEN.public]


async def test_connecting_is_done_when_the_node_knows_the_app(end: RouterEnd, autojump_clock: MockClock) -> None:
    end.greets = False
    with trio.move_on_after(60) as patience:
        async with sign_on(end):
            raise AssertionError("connected before the node had greeted the app")
    assert patience.cancelled_caught and end.hellos
    end.greets = True
    async with sign_on(end) as node:
        assert node.key in end.links


async def test_no_node() -> None:
    with pytest.raises(NodeUnavailable, match="nobody in this process is listening"):
        async with router.connect(url="memory://nobody"):
            raise AssertionError


async def test_no_node_in_the_home(tmp_path: Path) -> None:
    with pytest.raises(NodeUnavailable, match="router serve"):
        async with router.connect(home=tmp_path):
            raise AssertionError


async def test_publishing_while_the_node_is_away_raises(end: RouterEnd, autojump_clock: MockClock) -> None:
    away = trio.Event()
    async with sign_on(end, on_away=lambda _: away.set()) as node:
        end.stop()
        await away.wait()
        with pytest.raises(NodeUnavailable, match=r"away: .*when_down"):
            await node.group(OPEN).publish(b"x")
        with pytest.raises(NodeUnavailable, match="away"):
            await node.join(OPEN)
        with pytest.raises(NodeUnavailable, match="away"):
            await node.ask("status")


async def test_publishing_just_after_a_loss_waits_for_the_first_attempt(
    end: RouterEnd, autojump_clock: MockClock
) -> None:
    async with sign_on(end) as node:
        await wait_all_tasks_blocked()
        end.cut()
        await wait_all_tasks_blocked()
        assert not node.is_up
        await node.send(SigningKey(b"x" * 32).public, b"x", plain=True)
        began = trio.current_time()
        end.stop()
        await wait_all_tasks_blocked()
        await fails(node, "the node is away")
        assert trio.current_time() - began < 1


async def test_what_was_under_way_waits_only_so_long(end: RouterEnd, autojump_clock: MockClock) -> None:
    end.holding = True
    async with sign_on(end, patience_s=30) as node:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, node, "away for .*not known")
            await wait_all_tasks_blocked()
            end.stop()
        assert 30 <= trio.current_time() - began < 30 + 2 * RETRY.pause_s_max


async def fails(node: Node, why: str) -> None:
    with pytest.raises(NodeUnavailable, match=why):
        await node.group(OPEN).publish(b"x")


async def test_publishing_may_wait_for_the_node(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with router.connect(url="memory://node", when_down="queue") as node:
        group = node.group(OPEN)
        async with trio.open_nursery() as publishing:
            for number in range(3):
                publishing.start_soon(group.publish, b"%d" % number)
                await wait_all_tasks_blocked()
            await trio.sleep(3600)
            end = RouterEnd()
            end.members[OPEN.public] = {SigningKey(b"m" * 32).public: False}
            await nursery.start(end.run)
        assert end.bodies(0) == [b"0", b"1", b"2"]
        assert (await node.join(OPEN)).key == OPEN.public


async def test_waiting_may_be_cancelled_and_leaves_no_trace(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with router.connect(url="memory://node", when_down="queue") as node:
        group = node.group(FAMILY)
        with trio.move_on_after(5) as scope:
            await group.publish(b"never")
        assert scope.cancelled_caught
        end = RouterEnd()
        await nursery.start(end.run)
        reader = sign_on(end)
        async with reader:
            his = await reader.join(FAMILY)
            await group.publish(b"first")
            [message] = await take(his, 1)
        assert (message.body, message.seq, message.deps) == (b"first", 0, ())


async def test_a_node_that_was_replaced_does_not_fight(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, b"n") as first:
        group = await first.join(OPEN)
        async with sign_on(end, b"n"):
            with pytest.raises(NodeUnavailable, match="another process has signed on"):
                async for _ in group:
                    raise AssertionError
            with pytest.raises(NodeUnavailable, match="replaced"):
                await first.group(OPEN).publish(b"x")
            await trio.sleep(100)
            assert len(end.hellos) == 2
            assert [one async for one in first.reports] == []


async def test_the_router_must_be_who_is_expected(end: RouterEnd, autojump_clock: MockClock) -> None:
    with pytest.raises(NodeUnavailable, match="expected"):
        async with sign_on(end, expect=SigningKey(b"x" * 32).public):
            raise AssertionError
    async with sign_on(end, expect=end.key.public.hex()) as node:
        assert node.router == end.key.public


async def test_a_node_that_never_answers(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def mute(stream: object) -> None:
        await trio.sleep_forever()

    await nursery.start(partial(memory.listen, "memory://mute", SigningKey(b"x" * 32), mute))
    with pytest.raises(NodeUnavailable, match="did not answer within 10 s"):
        async with router.connect(url="memory://mute"):
            raise AssertionError


async def test_a_silent_node_is_pinged_and_then_given_up(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end) as node:
        await trio.sleep(70)
        assert len(end.items) == 2 and len(end.hellos) == 1
        end.items.clear()
        end.answers_pings = False
        await trio.sleep(70)
        assert [type(one) for one in end.items] == [link.Ping, link.Ping]
        await trio.sleep(20)
        assert len(end.hellos) == 2 and node.is_up


async def test_a_node_that_breaks_the_protocol_is_told(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end) as node:
        await wait_all_tasks_blocked()
        end.link_to(node.key).say(link.Settled(7))
        await trio.sleep(1)
        [(reason, text)] = end.goodbyes
        assert reason is Reason.MALFORMED and "settled 7" in text
        assert len(end.hellos) == 2


async def test_back_off_doubles_with_jitter(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []

    async def dial(*_: object, **__: object) -> None:
        tried.append(trio.current_time())
        raise ConnectFailed(Reason.CONNECT_FAILED, "nobody there")

    monkeypatch.setattr("router.client.link.transport.dial", dial)
    async with router.connect(url="memory://node", when_down="queue", random=lambda: 0.5) as node:
        await trio.sleep(60)
        assert not node.is_up
    pauses = [b - a for a, b in pairwise(tried)]
    assert pauses[:4] == pytest.approx([0.075, 0.15, 0.3, 0.6])
    assert max(pauses) == pytest.approx(RETRY.pause_s_max * 0.75)


async def test_change_of_network_ends_a_pause_and_makes_them_short_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, changed = list[float](), list[Callable[[], None]]()

    async def dial(*_: object, **__: object) -> None:
        tried.append(trio.current_time())
        raise ConnectFailed(Reason.CONNECT_FAILED, "nobody there")

    async def watch(on_change: Callable[[], None]) -> None:
        changed.append(on_change)

    monkeypatch.setattr("router.client.link.transport.dial", dial)
    monkeypatch.setattr("router.client.link.watch", watch)
    async with router.connect(url="tls://192.0.2.1:4101", when_down="queue", random=lambda: 1.0):
        await trio.sleep(60)
        tried.clear()
        changed[0]()
        await trio.sleep(1)
    assert [round(at - 60, 2) for at in tried] == [0.0, 0.1, 0.3, 0.7]


async def test_outcomes_end_with_the_connection(end: RouterEnd, autojump_clock: MockClock) -> None:
    async with sign_on(end, b"b") as bob, sign_on(end, outcomes=True) as node:
        await bob.join(OPEN)
        outcomes = await node.group(OPEN).publish(b"x", wait=True)
        async with trio.open_nursery() as nursery:
            finals: list[list[link.RecipientOutcome]] = []

            async def wait() -> None:
                finals.append(await outcomes.final())

            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            end.link_to(node.key).scope.cancel()
        assert finals == [[link.RecipientOutcome(bob.key, "queued")]] and not outcomes.complete


async def test_the_window_of_the_router_is_kept(end: RouterEnd, autojump_clock: MockClock) -> None:
    end.window = (4, 8 << 20)
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        end.holding = True
        async with trio.open_nursery() as publishing:
            publishing.start_soon(publish_all, node, [b"%d" % number for number in range(10)], [])
            await wait_all_tasks_blocked()
            assert end.bodies(-1) == [b"0", b"1", b"2", b"3"]
            end.release()
        assert len(end.bodies(-1)) == 10


async def test_in_flight_never_exceeds_what_a_session_allows(end: RouterEnd, autojump_clock: MockClock) -> None:
    """The node's window check is the judge, for many large messages, a small window and several cuts."""
    end.window = (16, 64 << 10)
    async with sign_on(end, b"b", window_messages=8, window_bytes=32 << 10) as bob, sign_on(end, b"n") as node:
        his = await bob.join(OPEN)
        bodies = [bytes((number,)) * 5000 for number in range(60)]
        ids: list[MessageId] = []
        got: list[bytes] = []

        async def read() -> None:
            got.extend(one.body for one in await take(his, 60))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish_all, node, bodies, ids)
            nursery.start_soon(read)
            for _ in range(5):
                await trio.sleep(0.01)
                end.cut()
        assert got == bodies
        assert not any(reason is Reason.WINDOW_EXCEEDED for reason, _ in end.goodbyes)


@pytest.mark.parametrize("seed", range(6))
async def test_any_weather(end: RouterEnd, autojump_clock: MockClock, seed: int) -> None:
    """Cuts, stalls and slow readers come at random: an app that lives reads every message once, in order."""
    chance = random.Random(seed)
    end.window = (chance.choice((3, 16, 64)), 1 << 20)
    bodies = [b"%d" % number for number in range(120)]
    got: list[bytes] = []

    async def read(node: Node) -> None:
        async for message in await node.join(OPEN):
            got.append(message.body)
            if chance.random() < 0.1:
                await trio.sleep(chance.random())
            if len(got) == len(bodies):
                break

    async def weather() -> None:
        while True:
            await trio.sleep(chance.random())
            chance.choice((end.cut, end.release, partial(setattr, end, "holding", True)))()

    async with sign_on(end, b"b", window_messages=chance.choice((2, 7, 100))) as bob, sign_on(end, b"n") as node:
        await bob.join(OPEN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(weather)
            async with trio.open_nursery() as work:
                work.start_soon(read, bob)
                work.start_soon(publish_all, node, bodies, [])
            nursery.cancel_scope.cancel()
        assert got == bodies, f"seed {seed}"
        assert bob.problems.total == node.problems.total == 0
