"""The groups that an app wants: requested until answered, again at every connection, shared by tasks, never lost
silently."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from router.client import joins
from router.client.custody.outbox import Submission
from router.client.errors import ClientError, JoinRefused, NotAnswered
from router.client.joins import INTRODUCTION_MIN, Joins
from router.core.wire.address import parse_address
from router.core.wire.admin import Answer, decode_inquiry
from router.core.wire.codec import unframe
from router.core.wire.control import Control, Join, JoinAck, Leave, LeaveAck, decode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.hint import Hint, Hinted, decode_hint
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message
from router.core.wire.reasons import Reason

APP, ROUTER = SigningKey(b"a" * 32), SigningKey(b"r" * 32).public
ONE, TWO = (SigningKey(bytes((n,)) * 32).public for n in (1, 2))
GRANTED = "<1 groups wanted, 1 of them granted>"


class World:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.asked = 0
        self.joins = Joins(APP, lambda: 1_800_000_000.0, self._ask, self.problems.append)

    def _ask(self) -> None:
        self.asked += 1

    def requests(self) -> list[Submission]:
        return self.joins.requests(ROUTER, trio.current_time())


def said(run: Submission) -> Control:
    message = open_message(unframe(run.frame))
    assert message.ttl_s == 0 and not run.again
    return decode_control(message.body)


async def test_asked_until_answered_and_again_at_a_new_connection(autojump_clock: MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.join, ONE, True, 60)
        await wait_all_tasks_blocked()
        runs = world.requests()
        assert [said(run) for run in runs] == [Join(ONE, True)] and world.asked == 1
        assert world.requests() == []
        await trio.sleep(5)
        runs += world.requests()
        assert len(runs) == 2 and runs[0].frame != runs[1].frame
        world.joins.hear(JoinAck(TWO, True))
        world.joins.hear(LeaveAck(ONE, True))
        assert repr(world.joins) == "<1 groups wanted, 0 of them granted>"
        world.joins.hear(JoinAck(ONE, True))
    assert repr(world.joins) == GRANTED
    await trio.sleep(60)
    assert world.requests() == []
    world.joins.restart()
    assert [said(run) for run in world.requests()] == [Join(ONE, True)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.all_again)
        await wait_all_tasks_blocked()
        world.joins.hear(JoinAck(ONE, True))


async def test_hints_follow_each_join_and_their_refusal_is_not_its(autojump_clock: MockClock) -> None:
    """An older router does not know hints; a membership of this node alone needs none (R-C28)."""
    world = World()
    hints = (Hint(TWO, (parse_address("tls://198.51.100.7:4101"),)),)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.join, ONE, False, 60, hints)
        await wait_all_tasks_blocked()
        nursery.start_soon(world.joins.join, TWO, True, 60, hints)
        await wait_all_tasks_blocked()
        join, hint, other = world.requests()
        assert (said(join), said(other)) == (Join(ONE, False), Join(TWO, True))
        assert decode_hint(open_message(unframe(hint.frame)).body) == Hinted(ONE, hints)
        hint.sink.refused(Reason.UNSUPPORTED, "control message type 11 is unknown")
        for group in (ONE, TWO):
            world.joins.hear(JoinAck(group, True))
    world.joins.restart()
    assert len(world.requests()) == 3 and world.problems == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.leave, ONE, 10)
        await wait_all_tasks_blocked()
        assert [said(run) for run in world.requests()] == [Leave(ONE)]
        world.joins.hear(LeaveAck(ONE, True))


def test_hints_of_who_publishes_only_are_told_once_on_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "HINTED_MAX", 1)
    made = Joins(APP, lambda: 1_800_000_000.0, lambda: None, lambda _: None)
    hints = (Hint(TWO, (parse_address("tls://198.51.100.7:4101"),)),)

    def told() -> list[Hinted]:
        return [decode_hint(open_message(unframe(run.frame)).body) for run in made.requests(ROUTER, 1.0)]

    for group in (TWO, ONE):
        made.hint(group, hints)
    made.hint(ONE, hints)
    made.hint(TWO, ())
    assert told() == [Hinted(ONE, hints)] and told() == [], "the first of too many is forgotten"
    made.restart()
    assert told() == [Hinted(ONE, hints)]


async def test_leaving_ends_the_membership(autojump_clock: MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.leave, ONE, 10)
        await wait_all_tasks_blocked()
        assert [said(run) for run in world.requests()] == [Leave(ONE)]
        world.joins.hear(LeaveAck(ONE, True))
    world.joins.restart()
    assert world.requests() == []


async def test_a_link_that_refuses_the_request() -> None:
    world = World()
    async with trio.open_nursery() as nursery:

        async def join() -> None:
            with pytest.raises(JoinRefused, match="not-authorised"):
                await world.joins.join(ONE, False, 10)

        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        [run] = world.requests()
        run.sink.refused(Reason.RATE_LIMITED, "")  # passes: it is asked again
        await wait_all_tasks_blocked()
        run.sink.refused(Reason.NOT_AUTHORISED, "")
        run.sink.ended()
    assert world.requests() == []


@pytest.mark.parametrize("by_link", [True, False])
async def test_what_is_refused_later_is_a_problem(by_link: bool, autojump_clock: MockClock) -> None:
    """A later refusal is reported once, and the group is requested again at the next connection."""
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.join, ONE, False, 10)
        await wait_all_tasks_blocked()
        world.joins.hear(JoinAck(ONE, True))
    world.joins.restart()
    [run] = world.requests()
    if by_link:
        run.sink.refused(Reason.NOT_AUTHORISED, "")
    else:
        world.joins.hear(JoinAck(ONE, False))
    assert len(world.problems) == 1 and repr(world.joins) != GRANTED
    await trio.sleep(60)
    assert world.requests() == []
    with trio.fail_after(1):
        await world.joins.all_again()
    world.joins.restart()
    [run] = world.requests()
    world.joins.hear(JoinAck(ONE, True))
    assert len(world.problems) == 1 and repr(world.joins) == GRANTED, "the right has come back"


async def test_two_tasks_share_one_membership(autojump_clock: MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.join, ONE, False, 60)
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await world.joins.join(ONE, False, 60)
        assert len(world.requests()) == 1
        world.joins.hear(JoinAck(ONE, True))
    assert repr(world.joins) == GRANTED


async def test_a_later_wish_takes_the_place_of_another(autojump_clock: MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:

        async def join() -> None:
            with pytest.raises(ClientError, match="replaced this one"):
                await world.joins.join(ONE, False, 60)

        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        nursery.start_soon(world.joins.leave, ONE, 60)
        await wait_all_tasks_blocked()
        assert [said(run) for run in world.requests()] == [Leave(ONE)]
        world.joins.hear(LeaveAck(ONE, True))


async def test_a_wish_that_fails_leaves_things_as_they_were(autojump_clock: MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.join, ONE, False, 10)
        await wait_all_tasks_blocked()
        world.joins.hear(JoinAck(ONE, True))
    with pytest.raises(NotAnswered, match="may leave"):
        await world.joins.leave(ONE, 10)
    assert repr(world.joins) == GRANTED
    with trio.move_on_after(1):
        await world.joins.join(TWO, False, 60)
    world.joins.restart()
    assert [said(run) for run in world.requests()] == [Join(ONE, False)]


async def test_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    async with trio.open_nursery() as nursery:

        async def join() -> None:
            with pytest.raises(ClientError, match="gone"):
                await world.joins.join(ONE, False, 60)

        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        world.joins.end(ClientError("gone"))
    monkeypatch.setattr("router.client.joins.GROUPS_MAX", 0)
    with pytest.raises(ClientError, match="which is the most"):
        await world.joins.join(TWO, False, 60)


async def test_a_connection_that_is_gone_for_good_refuses_no_group() -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.joins.join, ONE, False, 60)
        await wait_all_tasks_blocked()
        world.joins.hear(JoinAck(ONE, True))
    world.joins.restart()
    [run] = world.requests()
    run.sink.failed(ClientError("this connection has been left"))
    assert world.problems == [] and repr(world.joins) == GRANTED
    await world.joins.all_again()


async def test_an_introduction_is_signed_once_each_time_the_router_asks(autojump_clock: MockClock) -> None:
    world = World()
    assert world.requests() == []
    world.joins.introduce()
    [run] = world.requests()
    message = open_message(unframe(run.frame))
    assert (decode_inquiry(message.body), world.asked) == (Answer(b"{}"), 1)
    assert message.expiry_min == expiry_min(1_800_000_000.0) + INTRODUCTION_MIN, "of two edges the later counts"
    assert world.requests() == []
    world.joins.introduce()
    world.joins.restart()
    assert world.requests() == [], "that connection is over"
