"""Copies of a message in flight, by value: whichever is decided first, all share the fate of the first one."""

from __future__ import annotations

import random

import pytest
from rigs.one_router import OneRouter
from test_acceptance import forged, news, two_bringers

from router.core.routing.job import Job
from router.core.routing.limits import CoreLimits, QueueLimits
from router.core.wire.reasons import Reason

FULL = CoreLimits(queues=QueueLimits(node_messages_max=0))


def decide(one: OneRouter, *jobs: Job) -> dict[int, tuple[int, list[tuple[int, Reason]]]]:
    """Decide these jobs in a cycle of their own; return what is settled, link by link."""
    one.jobs = list(jobs)
    one.cycle()
    return {
        link: (n, [(k, reason) for k, reason, _ in refusals]) for link, (n, refusals) in one.settled().items()
    }  # fmt: skip


@pytest.mark.parametrize("limits", [None, FULL], ids=["accepted", "refused"])
def test_a_copy_that_is_decided_before_the_first_is_settled_after_it(limits: CoreLimits | None) -> None:
    one, first, second, _ = two_bringers(limits)
    job, copy = one.bring(first, news()), one.bring(second, news())
    assert len(job.fresh) == len(copy.copies) == 1
    refusals = [(1, Reason.QUEUE_FULL_NODE)] if limits else []
    assert decide(one, copy) == {}, "nothing is settled of which the fate is open"
    assert decide(one, job) == {first: (1, refusals), second: (1, refusals)}
    assert not one.router.seen._in_flight and not one.router.seen._verdicts
    assert one.turned() == ([("refused", Reason.QUEUE_FULL_NODE, 1)] * 2 if limits else [("duplicate", 5, 1)])


def test_what_a_link_says_after_a_copy_is_decided_and_settled_behind_it() -> None:
    one, first, second, bob = two_bringers()
    job, copy = one.bring(first, news()), one.bring(second, news())
    later = one.bring(second, news(b"later"))
    assert decide(one, copy) == {}
    assert decide(one, later) == {} and len(one.handed(bob)) == 1, "what is fresh is passed on at once"
    assert decide(one, job) == {first: (1, []), second: (2, [])}


def test_two_links_that_wait_for_each_other_wait_no_longer_than_for_the_other_ones_read() -> None:
    one, first, second, _ = two_bringers()
    jobs = [one.bring(first, news(b"1")), one.bring(second, news(b"2"))]
    crossing = [one.bring(first, news(b"2"), news(b"3")), one.bring(second, news(b"1"), forged(news(b"4")))]
    both = {n: [jobs[n], crossing[n]] for n in (0, 1)}
    assert decide(one, *both[1]) == {}
    assert decide(one, *both[0]) == {first: (3, []), second: (3, [(3, Reason.BAD_SIGNATURE)])}


def test_a_copy_whose_link_is_gone_gives_back_what_it_held() -> None:
    one, first, second, _ = two_bringers()
    job, copy = one.bring(first, news()), one.bring(second, news())
    decide(one, copy)
    one.router.link_down(second, one.now())
    assert set(decide(one, job)) == {first, second}, "a settling returns the bytes in flight, heard or not"
    assert not one.router._acceptance._waiting


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_of_links_each_message_is_accepted_once_and_everything_is_settled(seed: int) -> None:
    """Reads keep their order within a link; between links any order may come, in cycles of any size."""
    chance = random.Random(seed)
    one, first, second, _ = two_bringers()
    brought: dict[int, list[Job]] = {first: [], second: []}
    bad = {n for n in range(30) if chance.random() < 0.1}
    false, good = dict.fromkeys(brought, 0), set[int]()
    for _ in range(20):
        link = chance.choice((first, second))
        numbers = [chance.randrange(30) for _ in range(chance.randrange(1, 5))]
        wires = [forged(news(bytes((n,)))) if n in bad else news(bytes((n,))) for n in numbers]
        brought[link].append(one.bring(link, *wires))
        false[link] += sum(n in bad for n in numbers)
        good |= {n for n in numbers if n not in bad}
    sent = {link: sum(len(job.arrived.rows) for job in jobs) for link, jobs in brought.items()}
    settled = dict.fromkeys(brought, 0)
    refused = dict.fromkeys(brought, 0)
    while any(brought.values()):
        cycle = []
        for _ in range(chance.randrange(1, 4)):
            if open_links := [link for link, jobs in brought.items() if jobs]:
                cycle.append(brought[chance.choice(open_links)].pop(0))
        for link, (n, refusals) in decide(one, *cycle).items():
            assert settled[link] < n and all(settled[link] < k <= n for k, _ in refusals), "in the order of the link"
            settled[link], refused[link] = n, refused[link] + len(refusals)
    assert settled == sent and refused == false
    assert sum(count for _, count, _ in one.accepted()) == len(one.disk.ids) == len(good)
    assert not one.router.seen._in_flight and not one.router.seen._verdicts and not one.router._acceptance._waiting
