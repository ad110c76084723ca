"""Real verifier processes: true and false signatures, fair order, a process that dies and its successor."""

from __future__ import annotations

import os
import signal
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from rigs.one_router import ME, WALL_S, OneRouter
from rigs.patience import HANG_S
from samples.core import ALICE, BOB

from router.core.link.custody import Outgoing
from router.core.link.session import MessageRun
from router.core.neighbours.directory import STRANGERS, Standing
from router.core.routing.intake import read_messages
from router.core.routing.job import Job
from router.core.routing.links import Link
from router.core.routing.parcel import U32
from router.core.wire.codec import frame, split_frames
from router.core.wire.control import Carried, Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast, with_via
from router.node import verifiers as verifiers_module
from router.node.verifiers import IDLE_S, INLINE_MESSAGES_MAX, OUTSTANDING_MAX, Verifiers

EXPIRY = expiry_min(WALL_S + 3600)
MANY = 40  # messages of a read: too many to be checked here


def link(number: int, standing: Standing = Standing.PEER) -> Link:
    return Link(number, bytes((number,)) * 32, standing, Outgoing(8, 4096))


def job(of: Link, bodies: range, false: frozenset[int] = frozenset()) -> Job:
    """Return one read of a link; the messages with these numbers have a signature of another key, or a changed body."""
    wires = [seal_unicast(ALICE, BOB.public, n.to_bytes(4), ttl_s=60, expiry_min=1) for n in bodies]
    for at, n in enumerate(bodies):
        if n in false and n % 2:
            wires[at] = wires[at][:-1] + bytes((wires[at][-1] ^ 1,))
        elif n in false:
            other = seal_unicast(SigningKey(b"x" * 32), BOB.public, n.to_bytes(4), ttl_s=60, expiry_min=1)
            wires[at] = wires[at][:-64] + other[-64:]
    data = b"".join(map(frame, wires))
    arrived = read_messages(of.id, MessageRun(1, data, split_frames(data)[0]))
    positions = array(U32)
    for row in arrived.rows:
        positions.extend((row.start, row.end, row.signer_at))
    return Job(of, arrived, list(arrived.rows), positions)


class Released:
    """Records the jobs that verifiers release, in order."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._more = trio.Event()

    def __call__(self, jobs: list[Job]) -> None:
        self.jobs += jobs
        self._more.set()
        self._more = trio.Event()

    async def until(self, count: int) -> list[Job]:
        with trio.fail_after(HANG_S):
            while len(self.jobs) < count:
                await self._more.wait()
        return self.jobs


@asynccontextmanager
async def verifying(count: int, idle_s: float = IDLE_S) -> AsyncIterator[tuple[Verifiers, Released]]:
    released = Released()
    verifiers = Verifiers(count, released, idle_s)
    async with trio.open_nursery() as nursery:
        await nursery.start(verifiers.run)
        yield verifiers, released
        nursery.cancel_scope.cancel()


async def started(verifiers: Verifiers, count: int = 1) -> int:
    """Wait until so many processes run; return the id of the first, if any."""
    with trio.fail_after(HANG_S):
        while len(verifiers.pids) != count:
            await trio.sleep(0.001)
    return verifiers.pids[0] if count else 0


@pytest.mark.parametrize("count", [0, 1, 2])
async def test_each_verdict_is_that_of_its_message(count: int) -> None:
    false = frozenset((0, 3, 7, MANY - 1, MANY + 2))
    async with verifying(count) as (verifiers, released):
        for n in range(5):
            verifiers.submit(job(link(1), range(n * MANY, (n + 1) * MANY), false))
        verdicts = b"".join(one.valid for one in await released.until(5))
    assert [n for n, good in enumerate(verdicts) if not good] == sorted(false)
    assert len(verdicts) == 5 * MANY and set(verdicts) == {0, 1}


async def test_a_carried_message_that_lost_its_via_is_good_whatever_comes_behind_it() -> None:
    """Its new frame stands behind all others of the read, though its row stands beside its carrier's."""
    one, group = OneRouter(), SigningKey(b"g" * 32)
    alice, bob = one.link(ALICE.public), one.link(BOB.public)
    one.bring(bob, seal_unicast(BOB, ME.public, encode_control(Join(group.public, False)), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    said = [seal_multicast(group, bytes([n]), ttl_s=60, expiry_min=EXPIRY) for n in range(4)]
    carrier = encode_control(Carried(with_via(said[0], BOB.public)))
    read = one.bring(alice, seal_unicast(ALICE, ME.public, carrier, ttl_s=0, expiry_min=EXPIRY), *said[1:])
    read.valid = b""
    async with verifying(1) as (verifiers, released):
        verifiers.submit(read)
        await released.until(1)
    assert read.valid == bytes([1] * 5)


async def test_few_messages_are_checked_here_but_never_those_of_strangers() -> None:
    async with verifying(1) as (verifiers, released):
        verifiers.submit(job(link(1), range(INLINE_MESSAGES_MAX), frozenset((1,))))
        assert [one.valid for one in released.jobs] == [b"\1\0"], "at once"
        verifiers.submit(job(link(2, Standing.STRANGER), range(1), frozenset((0,))))
        assert len(released.jobs) == 1 and repr(verifiers) == "<1 verifiers, 1 jobs under way>"
        assert (await released.until(2))[1].valid == b"\0"
        assert repr(verifiers) == "<1 verifiers, 0 jobs under way>"


async def test_a_neighbour_does_not_wait_for_what_strangers_brought_before() -> None:
    async with verifying(1) as (verifiers, released):
        strangers = [job(link(n, Standing.STRANGER), range(MANY)) for n in range(2, 52)]
        for one in strangers:
            verifiers.submit(one)
        mine = job(link(1), range(MANY))
        verifiers.submit(mine)
        jobs = await released.until(51)
    assert [id(one) for one in jobs if one is not mine] == [id(one) for one in strangers], "these have one lane"
    assert next(at for at, one in enumerate(jobs) if one is mine) < 10


async def test_neighbours_do_not_wait_for_each_other_and_each_keeps_its_order() -> None:
    async with verifying(2) as (verifiers, released):
        flood, calm = link(1), link(2)
        theirs = [job(flood, range(MANY)) for _ in range(40)]
        for one in theirs:
            verifiers.submit(one)
        mine = [job(calm, range(count)) for count in (MANY, 1, 3, MANY)]
        for one in mine:
            verifiers.submit(one)
        jobs = await released.until(44)
    for its in (theirs, mine):
        assert [id(one) for one in jobs if one.link is its[0].link] == [id(one) for one in its]
    assert max(at for at, one in enumerate(jobs) if one.link is calm) < 35


async def test_who_is_known_better_leaves_the_lane_of_strangers_once_nothing_of_it_waits_there() -> None:
    near = link(2, Standing.MET)
    async with verifying(1) as (verifiers, released):
        before = job(near, range(MANY))
        verifiers.submit(before)
        near.charged = near.key  # groups were agreed on
        after = [job(near, range(MANY)), job(near, range(1))]
        for one in after:
            verifiers.submit(one)
        assert near.lane == STRANGERS
        assert [id(one) for one in await released.until(3)] == [id(one) for one in (before, *after)]
        strangers = [job(link(n, Standing.STRANGER), range(MANY)) for n in range(3, 53)]
        for one in strangers:
            verifiers.submit(one)
        mine = job(near, range(MANY))
        verifiers.submit(mine)
        assert near.lane == near.key
        jobs = await released.until(54)
    assert next(at for at, one in enumerate(jobs) if one is mine) < 13, "of 50 that came before, few were first"


async def test_what_a_killed_verifier_had_is_verified_and_another_takes_its_place() -> None:
    false = frozenset(range(0, 20 * MANY, 7))
    async with verifying(1) as (verifiers, released):
        verifiers.submit(job(link(1), range(MANY)))
        await released.until(1)
        [pid] = verifiers.pids
        os.kill(pid, signal.SIGSTOP)  # it takes its work and answers nothing
        for n in range(20):
            verifiers.submit(job(link(1), range(n * MANY, (n + 1) * MANY), false))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(released.jobs) == 1
        os.kill(pid, signal.SIGKILL)
        jobs = await released.until(21)
        verdicts = b"".join(one.valid for one in jobs[1:])
        assert [n for n, good in enumerate(verdicts) if not good] == sorted(false), "once each, and in order"
        other = await started(verifiers)
        assert other != pid
        os.kill(other, 0)
        verifiers.submit(job(link(1), range(MANY), frozenset((2,))))
        assert (await released.until(22))[21].valid.index(0) == 2, "the other one works"


async def test_where_no_process_can_be_started_signatures_are_checked_here_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(verifiers_module, "program", lambda module: ["/nowhere", module])
    async with verifying(2) as (verifiers, released):
        for n in range(1, 9):
            verifiers.submit(job(link(n, Standing.STRANGER if n % 2 else Standing.PEER), range(MANY), frozenset((n,))))
        jobs = await released.until(8)
        assert not verifiers.pids
        assert caplog.text.count("no verifier process can be started") == 1, "of the two that have tried"
        assert sorted(one.valid.index(0) for one in jobs) == [*range(1, 9)]


async def test_verifiers_start_one_by_one_as_they_are_needed_and_end_when_they_are_not() -> None:
    async with verifying(2, idle_s=0.01) as (verifiers, released):
        verifiers.submit(job(link(1), range(INLINE_MESSAGES_MAX)))
        await trio.testing.wait_all_tasks_blocked()
        assert not verifiers.pids, "few messages need none"
        verifiers.submit(job(link(2, Standing.STRANGER), range(1)))
        await started(verifiers)
        await released.until(2)
        await started(verifiers, 0)
        for n in range(3, OUTSTANDING_MAX + 4):
            assert len(verifiers.pids) < 2, "the first one can take what there is"
            verifiers.submit(job(link(n, Standing.STRANGER), range(1)))
        await started(verifiers, 2)
        await released.until(OUTSTANDING_MAX + 3)
        await started(verifiers, 0)


async def test_it_reads_as_a_sentence() -> None:
    assert repr(Verifiers(2, print)) == "<2 verifiers, 0 jobs under way>"
