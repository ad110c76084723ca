"""Very many groups: what one costs does not grow with their number, and a node takes part in all that its apps join at
one moment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType

import pytest
import trio
from rigs.patience import HANG_S
from rigs.pubsub_sides import Side, Sides
from rigs.rings import Rings
from rigs.serving import serving

from router.client.node import Node, connect
from router.core.service.meetings import MeetingLimits
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.meeting import Meet, Met
from router.service import contract as c
from router.service.roles import overlay as o
from router.settings.home import Home
from services.pubsub.core.messages import decode_message


def keys(first: int, count: int) -> list[PublicKey]:
    return [SigningKey(number.to_bytes(32, "big")).public for number in range(first, first + count)]


class Calls:
    """Counts calls of functions, the built-in ones included, which tells the same at any speed."""

    def __init__(self) -> None:
        self.count = 0

    def _saw(self, frame: FrameType, event: str, what: object) -> None:
        self.count += event in ("call", "c_call")

    def __enter__(self) -> Calls:
        self._before = sys.getprofile()
        sys.setprofile(self._saw)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)


@pytest.mark.parametrize("mode", ["leaf", "overlay"])
def test_a_further_group_costs_as_much_as_the_first_ones(mode: str) -> None:
    """Each SUB looked at all groups: 1,000 took 6 s of CPU, and 4,096 sixteen times as much."""
    side, first, then = Side(1, mode=mode), keys(1, 50), keys(1_000, 50)
    side.hear(c.Tick())
    with Calls() as few:
        for group in first:
            side.hear(o.Wanted(group, True))
    for group in keys(100, 700):
        side.hear(o.Wanted(group, True))
    with Calls() as many:
        for group in then:
            side.hear(o.Wanted(group, True))
    assert many.count < 1.5 * few.count + 2_000, "of 750 groups that are there, none is looked at for each new one"


def quiet_calls(count: int) -> int:
    """Return how many functions are called in ten periods by two cores that share so many groups, after their rings
    are whole."""
    rings = Rings([keys(1, count)] * 2, seed=1)
    one, other = rings.members
    rings.meet(one, other.me.router)
    for _ in range(5):
        rings.period()
    with Calls() as calls:
        for _ in range(10):
            rings.period()
    assert len(one.known.topics) == count and not any(map(rings.wrong, one.known.topics))
    return calls.count


def test_a_quiet_period_costs_as_much_with_many_common_groups_as_with_few() -> None:
    """Each looked at all rings: 1,000 groups took 10 ms of CPU."""
    few, many = quiet_calls(100), quiet_calls(1_000)
    assert many < 1.3 * few, f"{few} calls with 100 groups, {many} with 1,000"


def test_groups_that_come_and_go_each_second_cost_few_words_and_leave_nothing() -> None:
    stays, passing = keys(1, 1), keys(100, 300)
    one, other = Side(1, stays), Side(2, stays)
    sides = Sides(one, other)
    sides.link(one, other)
    sides.pass_time(60)
    rows, seconds = set(one.kept), 10
    sides.sent.clear()
    for _ in range(seconds):
        for wanted in (True, False):
            for group in passing:
                one.hear(o.Wanted(group, wanted))
            sides.pass_time(0.5)
    meetings = [sent for _, sent in sides.sent if isinstance(decode_message(sent.body), Meet | Met)]
    assert len(meetings) <= 3 * (seconds / MeetingLimits().apart_s + 1), "a meeting takes three words"
    assert len(sides.sent) <= len(meetings) + 4 * (seconds + 1), "and a second a question about rings of each, answered"
    sides.pass_time(60)
    assert one.rules.known.topics.keys() == set(stays) and set(one.kept) == rows
    assert other.neighbours(stays[0]) == {one.router.public}, "which is not disturbed"


async def test_a_node_takes_part_in_all_groups_that_apps_join_at_one_moment(tmp_path: Path) -> None:
    """A thousand held pub/sub up for minutes, and it took part in no more than a thousand."""
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["services.pubsub"]\n')
    apps, each = 3, 400
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            async with serving(home.path, {}), connect(home=home) as asking:
                for number in range(apps):
                    await nursery.start(join_all, home, keys(1 + number * each, each))
                while await topics(asking) < apps * each:
                    await trio.sleep(0.05)
                last = SigningKey((apps * each).to_bytes(32, "big"))
                await asking.group(last).publish(b"hello")
                while (await asked(asking, "forwarding"))["received"] < 1:
                    await trio.sleep(0.05)
                nursery.cancel_scope.cancel()


async def join_all(
    home: Home, groups: list[PublicKey], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    async with connect(home=home) as app, trio.open_nursery() as nursery:
        for group in groups:
            nursery.start_soon(lambda group=group: app.join(group, raw=True, timeout_s=HANG_S))  # type: ignore[misc]
        task_status.started()
        await trio.sleep_forever()


async def asked(node: Node, word: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(await node.ask("service", f"pubsub {word}", timeout_s=HANG_S))
    return found


async def topics(node: Node) -> int:
    found = await asked(node, "topics")
    return len(found["topics"]) + found["more"]  # type: ignore[arg-type]
