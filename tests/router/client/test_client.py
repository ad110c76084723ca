"""The promises of the app API: custody on publish, refusals, outcomes, answers, and the end of the block."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import FAMILY, OPEN, raw_wires, settled, sign_on, take
from trio.testing import wait_all_tasks_blocked

import router
from router import NodeUnavailable, Refused
from router.client.sequence import BLOCK
from router.core.wire import link_items as link
from router.core.wire.control import Report
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.message import Multicast, message_id, open_message
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


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


async def test_equal_raw_bodies_are_different_messages(end: RouterEnd) -> None:
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        ids = {await node.group(OPEN).publish(b"same", raw=True, ttl_s=60) for _ in range(5)}
        ids |= {await node.send(bob.key, b"same", ttl_s=0) for _ in range(5)}
        assert len(ids) == 10
        ttls = [open_message(wire).ttl_s for wire in end.heard[-1][:5]]
        assert all(52 <= ttl_s <= 60 for ttl_s in ttls)


@pytest.mark.parametrize("body", ["text", 7, None])
async def test_a_body_is_bytes(end: RouterEnd, body: Any) -> None:
    async with sign_on(end) as node:
        remedy = r"; say body\.encode\(\)$" if body == "text" else "$"
        said = rf"^a body is bytes, not {type(body).__name__}{remedy}"
        with pytest.raises(TypeError, match=said):
            await node.group(OPEN).publish(body)
        with pytest.raises(TypeError, match=said):
            await node.send(node.key, body)
        async with node.group(OPEN).publisher() as publisher:
            with pytest.raises(TypeError, match=said):
                await publisher.publish(body)


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
        told = f"3 messages for the app {short(key_text('addr', node.key))} were not delivered: "
        assert (await anext(node.problems)).startswith(told)
        await wait_all_tasks_blocked()
        assert settled(end, node) == 2  # the report counts and is settled like a message


async def test_pings_are_answered(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        await wait_all_tasks_blocked()
        end.link_to(node.key).say(link.Ping(77))
        await wait_all_tasks_blocked()
        [pong] = end.items
        assert isinstance(pong, link.Pong) and pong.t0 == 77 and pong.t1 > 1_700_000_000 * 10**9


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
    with pytest.raises(router.ClientError, match="connect\\(\\) again"):
        async with node:
            raise AssertionError
    assert "left" in repr(node)


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


async def test_an_app_ends_with_its_own_error_though_its_numbers_cannot_be_kept(end: RouterEnd, tmp_path: Path) -> None:
    """On a full disk, for example, the app's error is raised, without another one behind it."""
    problems: list[str] = []
    with pytest.raises(router.ClientError, match=r"cannot be written") as caught:
        async with (
            sign_on(end) as reader,
            sign_on(end, b"n", home=tmp_path / "home", on_problem=problems.append) as node,
        ):
            await reader.join(FAMILY)
            group = node.group(FAMILY)
            await group.publish(b"one")
            shutil.rmtree(tmp_path / "home" / "apps")
            (tmp_path / "home" / "apps").write_text("no room")
            for _ in range(BLOCK):
                await group.publish(b"more")
    assert caught.value.__cause__ is None
    [problem] = problems
    assert "some sequence numbers of this app stay unused" in problem


def test_reprs() -> None:
    node = router.connect(url="memory://nowhere")
    assert repr(node) == "<node at memory://nowhere, down: no connection has been tried>"
