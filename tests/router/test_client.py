"""What the app API promises: custody on publish, settling on asking for the next, groups, unicasts, answers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from router_end import RouterEnd, later
from trio.testing import wait_all_tasks_blocked

import router
from router import Node, NodeUnavailable, Refused
from router.client_group import Group
from router.core import link
from router.core.codec import frame
from router.core.control import Report
from router.core.crypto import MessageId, SigningKey
from router.core.grouplink import GroupLink, new_group
from router.core.message import Multicast, message_id, open_message, seal_multicast
from router.core.reasons import Reason
from router.received import Received

FAMILY = new_group(b"g" * 32, b"k" * 32, "family")
OPEN = SigningKey(b"o" * 32)


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


def sign_on(end: RouterEnd, seed: bytes = b"", **more: object) -> Node:
    key = SigningKey(seed * 32) if seed else None
    return router.connect(url=end.url, key=key, **more)  # type: ignore[arg-type]


async def take(source: Group | Node, count: int) -> list[Received]:
    """The first `count` messages; the last of them stays unsettled."""
    found = []
    async for message in source:
        found.append(message)
        if len(found) == count:
            break
    return found


def settled(end: RouterEnd, node: Node) -> int:
    return end.link_to(node.key).settled


def raw_wires(count: int, key: SigningKey = OPEN) -> list[bytes]:
    return [seal_multicast(key, b"%d" % number, ttl_s=60, expiry_min=later()) for number in range(count)]


async def test_what_one_app_publishes_another_reads(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        hers, his = await alice.join(FAMILY), await bob.join(FAMILY)
        first = await hers.publish(b"hello")
        second = await hers.publish(b"again")
        one, two = await take(his, 2)
        assert (one.id, one.body, one.sender, one.seq, one.deps) == (first, b"hello", alice.key, 0, ())
        assert (two.id, two.body, two.seq, two.deps) == (second, b"again", 1, (first,))
        assert (one.group, one.source, one.code, one.redelivered) == (FAMILY.group, None, 2, False)
        third = await his.publish(b"thanks")
        wire = end.heard[1][-1]
        message = open_message(wire)
        assert isinstance(message, Multicast) and message_id(wire) == third
        assert message.seen == (second, first)
        assert b"thanks" not in wire and b"hello" not in b"".join(end.heard[0])


async def test_publish_returns_when_the_router_has_custody(end: RouterEnd, nursery: trio.Nursery) -> None:
    done: list[MessageId] = []
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        group = node.group(OPEN)
        end.holding = True

        async def publish() -> None:
            done.append(await group.publish(b"x"))

        nursery.start_soon(publish)
        await wait_all_tasks_blocked()
        assert end.bodies(-1) == [b"x"] and not done
        end.release()
        await wait_all_tasks_blocked()
        assert done == [message_id(end.heard[-1][-1])]


@pytest.mark.parametrize("reason", [Reason.RATE_LIMITED, Reason.BLOCKED])
async def test_a_refusal_is_raised(end: RouterEnd, reason: Reason) -> None:
    end.refuse = lambda message: reason if message.body == b"bad" else None
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        group = node.group(OPEN)
        with pytest.raises(Refused) as caught:
            await group.publish(b"bad")
        assert (caught.value.reason, caught.value.later) == (reason, reason.later)
        assert caught.value.message == message_id(end.heard[-1][0])
        assert reason.word in str(caught.value)
        await group.publish(b"good")
        refused = open_message(end.heard[-1][0])
        good = open_message(end.heard[-1][1])
        assert isinstance(refused, Multicast) and isinstance(good, Multicast)
        assert good.seen == ()  # nobody will ever see the refused one


async def test_too_large_is_refused_before_it_closes_the_link(end: RouterEnd) -> None:
    end.frame_bytes_max = 4096
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        with pytest.raises(Refused) as caught:
            await node.group(OPEN).publish(b"x" * 5000)
        assert caught.value.reason is Reason.TOO_LARGE and "4096" in str(caught.value)
        await node.group(OPEN).publish(b"x" * 3000)
        assert len(end.hellos) == 2


async def test_a_message_is_settled_when_the_next_is_asked_for(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        group = await node.join(OPEN)
        await wait_all_tasks_blocked()
        before = settled(end, node)
        assert before == 1  # the JOIN_ACK counts and is settled like a message
        for wire in raw_wires(3):
            end.publish(wire)
        loop = group.messages()
        for number in range(3):
            message = await anext(loop)
            assert message.body == b"%d" % number and message.sender is None and message.seq is None
            await wait_all_tasks_blocked()
            assert settled(end, node) == before + number
        with trio.move_on_after(0):
            await anext(loop)
        await wait_all_tasks_blocked()
        assert settled(end, node) == before + 3


async def test_settling_by_hand_in_any_order(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        group = await node.join(OPEN)
        for wire in raw_wires(3):
            end.publish(wire)
        loop = group.messages(settle_on_next=False)
        first, second, third = [await anext(loop) for _ in range(3)]
        await third.settle()
        await second.settle()
        await wait_all_tasks_blocked()
        assert settled(end, node) == 1
        await first.settle()
        await first.settle()
        await wait_all_tasks_blocked()
        assert settled(end, node) == 4


async def test_leaving_a_loop_settles_nothing_until_the_next_one_asks(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        group = await node.join(OPEN)
        for wire in raw_wires(2):
            end.publish(wire)
        await take(group, 1)
        await wait_all_tasks_blocked()
        assert settled(end, node) == 1
        assert [one.body for one in await take(group, 1)] == [b"1"]
        await wait_all_tasks_blocked()
        assert settled(end, node) == 2


async def test_messages_of_one_loop_do_not_hold_up_another_loop(end: RouterEnd) -> None:
    other = SigningKey(b"p" * 32)
    async with sign_on(end, window_messages=8) as node:
        group, second = await node.join(OPEN), await node.join(other)
        for wire in [*raw_wires(3), *raw_wires(3, other)]:
            end.publish(wire)
        theirs = await take(second, 3)
        await wait_all_tasks_blocked()
        assert [one.body for one in theirs] == [b"0", b"1", b"2"] and settled(end, node) == 2
        await take(group, 3)
        await wait_all_tasks_blocked()
        assert settled(end, node) == 4  # the prefix ends at what the first loop holds
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(take, group, 1))
            await wait_all_tasks_blocked()
            assert settled(end, node) == 7
            nursery.cancel_scope.cancel()


async def test_the_window_bounds_what_waits_for_nobody(end: RouterEnd) -> None:
    async with sign_on(end, window_messages=4) as node:
        group = await node.join(OPEN)
        for wire in raw_wires(20):
            end.publish(wire)
        await wait_all_tasks_blocked()
        assert end.queues[node.key].handed == 4
        assert [one.body for one in await take(group, 20)] == [b"%d" % number for number in range(20)]


async def test_a_loop_over_everything(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        await bob.join(OPEN)
        await bob.join(FAMILY)
        await alice.group(OPEN).publish(b"open")
        await alice.send(bob.key, b"direct")
        await alice.group(FAMILY).publish(b"sealed")
        first, second, third = await take(bob, 3)
        assert (first.body, first.group, first.sender) == (b"open", OPEN.public, None)
        assert (second.body, second.source, second.sender, second.group) == (b"direct", alice.key, alice.key, None)
        assert (third.body, third.group, third.sender) == (b"sealed", FAMILY.group, alice.key)


async def test_unicasts(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        await bob.join(OPEN)
        await alice.group(OPEN).publish(b"not this")
        id = await alice.send(bob.key.hex(), b"psst")
        message = await anext(bob.unicasts())
        assert (message.id, message.body, message.via) == (id, b"psst", None)


async def test_equal_raw_bodies_are_different_messages(end: RouterEnd) -> None:
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        ids = {await node.group(OPEN).publish(b"same", raw=True, ttl_s=60) for _ in range(5)}
        ids |= {await node.send(bob.key, b"same", ttl_s=0) for _ in range(5)}
        assert len(ids) == 10
        ttls = [open_message(wire).ttl_s for wire in end.heard[-1][:5]]
        assert all(52 <= ttl_s <= 60 for ttl_s in ttls)


async def test_what_cannot_be_opened_is_reported_and_settled(end: RouterEnd) -> None:
    heard: list[str] = []
    async with sign_on(end, on_problem=heard.append) as node:
        group = await node.join(FAMILY)
        assert FAMILY.seed is not None
        for wire in raw_wires(1, SigningKey(FAMILY.seed)):
            end.publish(wire)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(take, group, 1))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert settled(end, node) == 2
        assert node.problems.total == 1 and "given to nobody" in node.problems.unread()[0]
        assert heard == node.problems.unread()


async def test_raw_groups_hand_out_bodies_as_they_are(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        his = await bob.join(FAMILY, raw=True)
        await alice.group(FAMILY).publish(b"as it is", raw=True)
        [message] = await take(his, 1)
        assert (message.body, message.sender) == (b"as it is", None)


async def test_verify_checks_the_routers_work_again(end: RouterEnd) -> None:
    [wire] = raw_wires(1)
    async with sign_on(end, verify=True) as node:
        group = await node.join(OPEN.public)
        end.publish(wire[:-1] + bytes((wire[-1] ^ 1,)))
        end.publish(wire)
        [message] = await take(group, 1)
        assert message.id == message_id(wire)
        assert "signature" in node.problems.unread()[0]


async def test_who_may_only_read_cannot_publish(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        for name in (FAMILY.read_only(), FAMILY.read_only().text(), OPEN.public, OPEN.public.hex()):
            with pytest.raises(router.CannotPublish, match="reading only"):
                await node.group(name).publish(b"x")
        assert repr(node.group(FAMILY.read_only())).endswith("read only>")


@pytest.mark.parametrize("group", [FAMILY, FAMILY.text(), SigningKey(b"g" * 32)])
async def test_the_names_of_a_group(end: RouterEnd, group: GroupLink | str | SigningKey) -> None:
    async with sign_on(end) as node:
        assert (await node.join(group)).key == FAMILY.group
        assert end.members[FAMILY.group] == {node.key: False}


async def test_join_refused(end: RouterEnd) -> None:
    end.join_answer = False
    async with sign_on(end) as node:
        with pytest.raises(router.JoinRefused) as caught:
            await node.join(OPEN)
        assert caught.value.group == OPEN.public and "operator" in str(caught.value)
        end.join_answer = True
        await node.join(OPEN)


async def test_join_not_answered(end: RouterEnd, autojump_clock: trio.testing.MockClock) -> None:
    end.join_answer = None
    async with sign_on(end) as node:
        with pytest.raises(router.NotAnswered, match="within 12 s"):
            await node.join(OPEN, timeout_s=12)
        assert len(end.heard[0]) == 3  # asked again every 5 s
        assert len(set(end.heard[0])) == 3
        await trio.sleep(20)
        assert len(end.heard[0]) == 3


async def test_two_tasks_join_one_group(end: RouterEnd) -> None:
    async with sign_on(end) as node, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(node.join, OPEN)


async def test_leave(end: RouterEnd) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN, local=True)
        assert end.members[OPEN.public] == {node.key: True}
        await group.leave()
        await node.leave(FAMILY.group)
        assert end.members[OPEN.public] == {}
        end.cut()
        await node.send(node.key, b"up again")
        assert end.bodies(-1) == [b"up again"] and end.members[OPEN.public] == {}


async def test_outcomes(end: RouterEnd) -> None:
    async with sign_on(end) as bob, sign_on(end, outcomes=True) as node:
        await bob.join(OPEN)
        outcomes = await node.group(OPEN).publish(b"x", wait=True)
        assert outcomes.recipients == [link.RecipientOutcome(bob.key, "queued")] and not outcomes.complete
        end.link_to(node.key).say(link.Outcome(outcomes.id, (link.RecipientOutcome(bob.key, "delivered"),)))
        assert [one.state async for one in outcomes] == ["queued", "delivered"]
        assert await outcomes.final() == [link.RecipientOutcome(bob.key, "delivered")] and outcomes.complete


async def test_outcomes_that_do_not_come_in_time(end: RouterEnd, autojump_clock: trio.testing.MockClock) -> None:
    async with sign_on(end) as bob, sign_on(end, outcomes=True) as node:
        await bob.join(OPEN)
        outcomes = await node.group(OPEN).publish(b"x", wait=True)
        assert await outcomes.final(timeout_s=5) == [link.RecipientOutcome(bob.key, "queued")]


async def test_outcomes_must_be_asked_for(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        with pytest.raises(ValueError, match="outcomes=True"):
            await node.group(OPEN).publish(b"x", wait=True)


async def test_reports_and_what_was_missed(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        await node.join(OPEN)
        other, id = SigningKey(b"x" * 32).public, MessageId(bytes(32))
        report = Report(id, other, "expired", Reason.TTL_EXPIRED, 1_800_000_000)
        missed = link.Missed(OPEN.public, 3, id, id, Reason.QUEUE_FULL_RECIPIENT)
        end.link_to(node.key).tell(report)
        end.link_to(node.key).say(missed)
        assert await anext(node.reports) == report
        assert await anext(node.missed) == missed
        assert "3 messages" in await anext(node.problems)
        await wait_all_tasks_blocked()
        assert settled(end, node) == 2  # the report counts and is settled like a message


async def test_pings_are_answered(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        await wait_all_tasks_blocked()
        end.link_to(node.key).say(link.Ping(77))
        await wait_all_tasks_blocked()
        [pong] = end.items
        assert isinstance(pong, link.Pong) and pong.t0 == 77 and pong.t1 > 1_700_000_000 * 10**9


async def test_ask(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        assert await node.ask("status") == b'{"asked": "status "}'
        assert await node.ask("drop", "everything") == b'{"asked": "drop everything"}'


async def test_a_publisher_keeps_a_bounded_number_in_flight(end: RouterEnd) -> None:
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        end.holding = True
        async with node.group(OPEN).publisher(in_flight=3) as publisher, trio.open_nursery() as nursery:

            async def publish() -> None:
                for number in range(5):
                    await publisher.publish(b"%d" % number)

            nursery.start_soon(publish)
            await wait_all_tasks_blocked()
            assert publisher.in_flight == 3 and end.bodies(-1) == [b"0", b"1", b"2"]
            assert repr(publisher) == "<publisher: 0 settled, 3 of at most 3 in flight>"
            end.release()
        assert publisher.settled == 5


async def test_a_publisher_tells_of_refusals(end: RouterEnd) -> None:
    end.refuse = lambda message: Reason.BLOCKED if message.body == b"bad" else None
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        group = node.group(OPEN)
        with pytest.raises(Refused):
            async with group.publisher() as publisher:
                for body in (b"good", b"bad", b"good"):
                    await publisher.publish(body)
        refused: list[Exception] = []
        async with group.publisher(on_refused=refused.append) as publisher:
            for body in (b"good", b"bad", b"bad", b"good"):
                await publisher.publish(body)
        assert (len(refused), publisher.settled) == (2, 2)
        with pytest.raises(ValueError, match="at least 1"):
            group.publisher(in_flight=0)


async def test_publish_many(end: RouterEnd) -> None:
    async with sign_on(end) as bob, sign_on(end) as node:
        his = await bob.join(FAMILY)
        ids = await node.group(FAMILY).publish_many((b"%d" % number for number in range(50)), in_flight=7)
        assert [one.id for one in await take(his, 50)] == ids


async def test_an_error_in_the_block_comes_out_as_it_is(end: RouterEnd) -> None:
    with pytest.raises(KeyError):
        async with sign_on(end):
            raise KeyError("mine")


async def test_cancelling_from_outside(end: RouterEnd) -> None:
    with trio.CancelScope() as scope:
        async with sign_on(end) as node:
            group = await node.join(OPEN)
            scope.cancel()
            async for _ in group:
                pass
    assert scope.cancelled_caught
    await wait_all_tasks_blocked()
    assert end.goodbyes == [(Reason.LEFT, "the app signs off")]


async def test_after_the_block(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        group = await node.join(OPEN)
        for wire in raw_wires(1):
            end.publish(wire)
        await take(group, 1)
    with pytest.raises(NodeUnavailable, match="left"):
        await group.publish(b"x")
    assert [one async for one in group] == []
    assert "left" in repr(node)


async def test_what_the_loop_asked_past_is_settled_at_the_end(end: RouterEnd) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN)
        for wire in raw_wires(3):
            end.publish(wire)
        await take(group, 2)
    await wait_all_tasks_blocked()
    assert len(end.queues[node.key].wires) == 2


async def test_with_a_journal_a_crash_shows_nothing_again(end: RouterEnd, tmp_path: Path) -> None:
    """What the loop has moved on from is in the journal, even if the node never hears that it is settled."""
    seen: list[tuple[bytes, bool]] = []
    for run in range(3):
        async with sign_on(end, b"n", journal=tmp_path / "journal") as node:
            group = await node.join(OPEN)
            end.link_to(node.key).hears_settled = False
            if not run:
                for wire in raw_wires(5):
                    end.publish(wire)
            for message in await take(group, 2):
                seen.append((message.body, message.redelivered))
    expected = [(b"0", False), (b"1", False), (b"1", True), (b"2", True), (b"2", True), (b"3", True)]
    assert seen == expected


async def test_settling_by_hand_waits_for_the_journal(end: RouterEnd, tmp_path: Path) -> None:
    for wanted in (b"0", b"1"):
        async with sign_on(end, b"n", journal=tmp_path / "journal") as node:
            group = await node.join(OPEN)
            end.link_to(node.key).hears_settled = False
            if wanted == b"0":
                for wire in raw_wires(2):
                    end.publish(wire)
            [message] = await take(group, 1)
            await message.settle()
            assert message.body == wanted


async def test_a_journal_that_cannot_be_used(end: RouterEnd, tmp_path: Path) -> None:
    with pytest.raises(router.JournalError, match="cannot be used"):
        async with sign_on(end, journal=tmp_path / "missing" / "journal"):
            raise AssertionError
    async with sign_on(end, journal=tmp_path / "journal"):
        with pytest.raises(router.JournalError, match="in use by another"):
            async with sign_on(end, journal=tmp_path / "journal"):
                raise AssertionError
    async with sign_on(end, journal=tmp_path / "journal"):
        pass


async def test_bulk(end: RouterEnd) -> None:
    wires = raw_wires(300)
    refused: list[tuple[int, Reason]] = []
    end.refuse = lambda message: Reason.BLOCKED if message.body == b"7" else None
    async with sign_on(end, window_messages=100) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        node.on_refused(lambda number, reason, text: refused.append((number, reason)))
        frames = [frame(wire) for wire in wires]
        assert await node.send_frames(frames[:100]) == 100
        assert await node.send_frames(frames[100:]) == 300
        await node.settled(300)
        assert node.settled_count == 300 and refused == [(8, Reason.BLOCKED)]
        got: list[MessageId] = []
        async for batch in bob.batches():
            assert batch.count == len(batch.spans) == len(batch.ids()) and batch.redelivered == 0
            assert [message_id(bytes(wire)) for wire in batch.wires()] == batch.ids()
            got += batch.ids()
            if len(got) == 299:
                break
        assert got == [message_id(wire) for wire in wires if open_message(wire).body != b"7"]
        await wait_all_tasks_blocked()
        assert settled(end, bob) < 300
        batch.settle()
        await wait_all_tasks_blocked()
        assert settled(end, bob) == 300


def test_reprs() -> None:
    node = router.connect(url="memory://nowhere")
    assert repr(node) == "<node at memory://nowhere, down: no connection has been tried>"
