"""Comparisons that wait for a place: each in its turn, and thousands cost no more than some."""

from __future__ import annotations

import pytest

from router.core.wire.crypto import PublicKey
from services.pubsub.core.comparison.plan import Plan, Plans
from services.pubsub.core.comparison.waiting import RETRY_S, TRIED_MAX, Waiting

ROUTER = PublicKey(b"r" * 32)


def waiting(count: int) -> tuple[Waiting, Plans, list[PublicKey]]:
    plans, groups = Plans(), [PublicKey(number.to_bytes(32, "big")) for number in range(count)]
    found = Waiting(plans)
    for group in groups:
        plans[group] = Plan(1e9, 300.0)
        found.for_place(group, ROUTER)
    return found, plans, groups


def tried(of: Waiting, plans: Plans, now_s: float, begun: list[PublicKey]) -> list[PublicKey]:
    """Try those whose turn it is, of which none can begin."""
    found = []
    for _ in of.take_turns(now_s, begun):
        found += [group for group, _ in plans.take_due(now_s, 1)]
    for group in found:
        plans[group].next_s = 1e9
        plans.changed(group)
        of.for_place(group)
    return found


def test_all_have_their_turn_some_each_second_though_none_ends() -> None:
    of, plans, groups = waiting(5 * TRIED_MAX)
    for group in groups:
        of.begun(group, ROUTER)
        of.for_place(group)
    turns = [tried(of, plans, at * RETRY_S / 4, []) for at in range(20)]
    assert [len(one) for one in turns] == [TRIED_MAX, 0, 0, 0] * 5
    assert sorted(group for turn in turns for group in turn) == groups and of.due_s == 5 * RETRY_S


@pytest.mark.parametrize(("count", "pause_s"), [(1, RETRY_S), (TRIED_MAX, RETRY_S), (3_200, 200 * RETRY_S)])
def test_one_is_due_by_itself_the_later_the_more_wait(count: int, pause_s: float) -> None:
    of, *_ = waiting(count)
    assert of.pause_s == pause_s


def test_one_that_has_ended_gives_its_place_to_the_one_that_waited_longest() -> None:
    of, plans, groups = waiting(3)
    for group in groups:
        of.begun(group, ROUTER)
        of.for_place(group)
    assert len(tried(of, plans, 0.0, [])) == 3
    begun = list[PublicKey]()
    of.freed()
    for _ in of.take_turns(0.1, begun):
        begun += [group for group, _ in plans.take_due(0.1, 1)]
    assert begun == groups[:1]
