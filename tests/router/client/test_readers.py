"""Loops: settling by asking for the next message, by hand, and with a journal; waiting and unreadable messages."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from rigs.router_end import RouterEnd, later
from samples.apps import FAMILY, OPEN, raw_wires, settled, sign_on, take
from trio.testing import wait_all_tasks_blocked

from router.core.wire.application import seal
from router.core.wire.crypto import SigningKey
from router.core.wire.message import message_id, seal_multicast
from router.core.wire.reasons import Reason
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState

ALICE = SigningKey(b"A" * 32)


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


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


async def test_what_cannot_be_opened_is_reported_and_refused(end: RouterEnd, caplog: pytest.LogCaptureFixture) -> None:
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
        assert [reason for _, reason in end.refusals] == [Reason.PEER_REFUSED], "its outcome says so, and not delivered"
        assert node.problems.total == 1 and "given to nobody: it is not sealed" in node.problems.unread()[0]
        assert heard == node.problems.unread() and not caplog.records


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


async def test_what_the_loop_asked_past_is_settled_at_the_end(end: RouterEnd) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN)
        for wire in raw_wires(3):
            end.publish(wire)
        await take(group, 2)
    await wait_all_tasks_blocked()
    assert len(end.queues[node.key].wires) == 2


async def test_with_a_journal_a_crash_shows_nothing_again(end: RouterEnd, tmp_path: Path) -> None:
    """Messages that the loop has moved on from are in the journal, even if the node never learns that they are
    settled."""
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


def words(seq: int, body: bytes, nonce: bytes) -> bytes:
    """Return Alice's words to the family, as a message that any member can have made."""
    sealed = seal(ALICE, FAMILY.group, seq, (), body, content_key=FAMILY.content_key, nonce=nonce)
    return seal_multicast(SigningKey(FAMILY.seed or b""), sealed, ttl_s=60, expiry_min=later())


async def test_what_a_member_says_is_given_once_however_often_another_seals_it(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        group = await node.join(FAMILY)
        for wire in (words(0, b"pay 10", b"n" * 24), words(0, b"pay 10", b"m" * 24), words(1, b"pay 10", b"n" * 24)):
            end.publish(wire)
        first, second = await take(group, 2)
        assert [(one.sender, one.seq, one.body) for one in (first, second)] == [
            (ALICE.public, 0, b"pay 10"), (ALICE.public, 1, b"pay 10"),
        ]  # fmt: skip
        await second.settle()
        await wait_all_tasks_blocked()
        assert settled(end, node) == 1 + 3, "the JOIN_ACK, and what was said again as well"
        [problem] = node.problems.unread()
        assert "sent again what addr1" in problem and "given it once" in problem


async def test_what_was_put_back_for_now_is_not_taken_for_said_again(end: RouterEnd) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(FAMILY)
        loop = group.messages()
        wire = words(0, b"pay 10", b"n" * 24)
        end.publish(wire)
        await (await anext(loop)).refuse(Reason.RATE_LIMITED)
        await wait_all_tasks_blocked()
        end.publish(wire)
        assert (await anext(loop)).body == b"pay 10"


async def test_a_journal_knows_what_was_said_before_a_restart(end: RouterEnd, tmp_path: Path) -> None:
    bodies = []
    for nonce in (b"n" * 24, b"m" * 24):
        async with sign_on(end, b"n", journal=tmp_path / "journal") as node:
            group = await node.join(FAMILY)
            end.publish(words(0, b"pay 10", nonce))
            end.publish(words(1, nonce, nonce))
            messages = await take(group, 2 if nonce[:1] == b"n" else 1)
            bodies += [one.body for one in messages]
            await messages[-1].settle()
    assert bodies == [b"pay 10", b"n" * 24, b"m" * 24]


class CountedState(AppState):
    """Counts its commits."""

    commits = 0

    def commit(self, batch: AppBatch, now_min: int = 0) -> None:
        CountedState.commits += 1
        super().commit(batch, now_min)


async def test_a_loop_with_a_journal_shares_syncs(
    end: RouterEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.client.options.AppState", CountedState)
    async with sign_on(end, b"n", journal=tmp_path / "journal") as node:
        group = await node.join(OPEN)
        for wire in raw_wires(1000):
            end.publish(wire)
        await take(group, 1000)
    await wait_all_tasks_blocked()
    assert 0 < CountedState.commits < 100
    assert len(end.queues[node.key].wires) == 1, "what the loop moved on from is settled when the app leaves"


async def test_a_message_may_be_refused_instead_of_settled(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        group = await node.join(OPEN)
        for wire in raw_wires(2):
            end.publish(wire)
        loop = group.messages()
        await (await anext(loop)).refuse(text="not this one")
        await anext(loop)
        await wait_all_tasks_blocked()
        assert end.refusals == [(2, Reason.PEER_REFUSED)] and settled(end, node) == 2
