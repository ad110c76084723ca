"""Fair turns by value: no source waits for all of another's work, and each lane keeps its order."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from router.core.routing.lanes import NARROW_PART, Lane, Lanes

SHARE = 64


@dataclass(eq=False)
class Task:
    name: str
    cost: int = 1
    done: bool = False


def taken(lanes: Lanes[Task], count: int) -> list[str]:
    """Return the names of the next tasks, each done before the next one is taken."""
    found = []
    for _ in range(count):
        turn = lanes.take()
        if turn is None:
            break
        lane, task = turn
        found.append(task.name)
        task.done = True
        lanes.finish(lane)
    return found


def test_a_newcomer_waits_for_no_more_than_a_share_of_the_others() -> None:
    lanes: Lanes[Task] = Lanes(SHARE)
    for _ in range(1000):
        lanes.add("flood", Task("flood", cost=SHARE // 4))
    assert taken(lanes, 10) == ["flood"] * 10
    lanes.add("calm", Task("calm"))
    assert "calm" in taken(lanes, 5)


def test_all_lanes_get_the_same_cost_whatever_their_tasks_weigh() -> None:
    lanes: Lanes[Task] = Lanes(SHARE)
    costs = {"small": 1, "middle": SHARE // 2, "large": 5 * SHARE}
    for name, cost in costs.items():
        for _ in range(64 * 5 * 20 // cost + 1):
            lanes.add(name, Task(name, cost))
    spent = dict.fromkeys(costs, 0)
    for name in taken(lanes, 1500):
        spent[name] += costs[name]
    assert max(spent.values()) - min(spent.values()) <= 6 * SHARE


def test_a_narrow_lane_gets_a_part_of_a_share_and_has_one_task_under_way() -> None:
    lanes: Lanes[Task] = Lanes(SHARE)
    for _ in range(2000):
        lanes.add("wide", Task("wide"))
        lanes.add("narrow", Task("narrow"), is_narrow=True)
    names = taken(lanes, 1000)
    assert names.count("wide") == pytest.approx(NARROW_PART * names.count("narrow"), rel=0.2)
    under_way: list[tuple[Lane[Task], Task]] = []
    while (turn := lanes.take()) is not None and len(under_way) < 500:
        under_way.append(turn)
    assert [task.name for _, task in under_way].count("narrow") == 1
    narrow = next(lane for lane, task in under_way if task.name == "narrow")
    assert lanes.finish(narrow), "another one may go now"


def test_only_a_narrow_lane_that_has_one_under_way_has_to_wait() -> None:
    lanes: Lanes[Task] = Lanes(SHARE)
    for _ in range(2):
        lanes.add("narrow", Task("narrow"), is_narrow=True)
    first = lanes.take()
    assert first is not None and lanes.take() is None
    assert lanes.finish(first[0]) and lanes.take() is not None


def test_a_task_that_is_done_only_keeps_its_place() -> None:
    lanes: Lanes[Task] = Lanes(SHARE)
    undone, done = Task("undone"), Task("done", done=True)
    lanes.add("a", undone)
    lanes.add("a", done)
    lanes.add("b", other := Task("other", done=True))
    assert lanes.release("b") == [other] and lanes.release("a") == []
    assert taken(lanes, 9) == ["undone"]
    assert lanes.release("a") == [undone, done] and len(lanes) == 0
    assert repr(lanes) == "<0 lanes, 0 tasks>"


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    chance = random.Random(seed)
    lanes: Lanes[Task] = Lanes(SHARE)
    added: dict[str, list[Task]] = {name: [] for name in "abcs"}
    released: dict[str, list[Task]] = {name: [] for name in "abcs"}
    under_way: list[tuple[Lane[Task], Task]] = []
    for step in range(3000):
        name, doing = chance.choice("abcs"), chance.random()
        if doing < 0.4 and step < 2000:
            task = Task(name, chance.randrange(3 * SHARE), chance.random() < 0.2)
            added[name].append(task)
            lanes.add(name, task, is_narrow=name == "s")
            released[name] += lanes.release(name)
        elif doing < 0.7:
            if (turn := lanes.take()) is not None:
                under_way.append(turn)
        elif under_way:
            lane, task = under_way.pop(chance.randrange(len(under_way)))
            task.done = True
            lanes.finish(lane)
            released[task.name] += lanes.release(task.name)
    while turn := under_way.pop() if under_way else lanes.take():
        lane, task = turn
        task.done = True
        lanes.finish(lane)
        released[task.name] += lanes.release(task.name)
    assert released == added and len(lanes) == 0 and not lanes._turns


def test_a_lane_reads_as_a_sentence() -> None:
    lanes: Lanes[Task] = Lanes(SHARE)
    assert repr(lanes.add("a", Task("x"))) == "<lane with 1 tasks, 1 of them waiting>"


def test_some_are_released_together_or_when_nothing_else_is_there() -> None:
    lanes: Lanes[Task] = Lanes(SHARE)
    tasks = [Task(str(number)) for number in range(5)]
    for task in tasks:
        lanes.add("strangers", task)
    tasks[0].done = tasks[2].done = True
    assert lanes.release("strangers", at_least=2) == [], "the second is not done"
    tasks[1].done = True
    assert lanes.release("strangers", at_least=2) == tasks[:3]
    tasks[3].done = True
    assert lanes.release("strangers", at_least=64) == []
    tasks[4].done = True
    assert lanes.release("strangers", at_least=64) == tasks[3:] and not lanes
