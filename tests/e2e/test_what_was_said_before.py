"""A subscription begins now: earlier messages are history, which a node fetches for others and shows on request."""

from __future__ import annotations

import time
from pathlib import Path

import trio
from overlay_nodes import core, edge
from rig import Rows, rig
from rigs.patience import HANG_S

from router.client.node import Node, connect
from router.core.wire.grouplink import GroupLink, new_group
from services.pubsub.core.comparison.begun import LATE_S

LINK = new_group(b"g" * 32, b"k" * 32, "club")
OLD = 40


async def caught_up(node: Node, group: GroupLink) -> int:
    """Wait until the node reports that it has caught up with a group; return how many messages were missing."""
    async for news in node.caught_up:
        if news.group == group.group:
            return news.of
    raise AssertionError("the connection has ended")


def are_both_in(rows: Rows) -> bool:
    return [row["group"] for row in rows].count(LINK.group.hex()) == 2


async def test_what_was_said_before_a_node_was_in_a_group_is_given_on_request_alone(tmp_path: Path) -> None:
    async with rig(tmp_path, within_s=HANG_S) as found:
        up, new, newer = core(found, "core"), edge(found, "new"), edge(found, "newer")
        up.serves(new)
        up.serves(newer)
        await up.start()
        async with connect(home=up.home) as reader, connect(home=up.home) as speaker:
            await reader.join(LINK)
            await up.until_answer("the joining of the reader and of the service", "groups", are_both_in)
            await speaker.group(LINK).publish_many([b"old %d" % number for number in range(OLD)])
            said_s = time.time()
            await new.start()
            while time.time() < said_s + LATE_S + 3:  # what is said in the moments before a subscription may be given
                await trio.sleep(0.1)
            async with connect(home=new.home) as app:
                group = await app.join(LINK)
                assert await caught_up(app, LINK) == 0, "nothing of it was missed"
                await up.until_joined(LINK.group, new.address)
                await speaker.group(LINK).publish(b"new")
                async for message in group:
                    assert message.body == b"new"
                    break
        whole = [b"old %d" % number for number in range(OLD)] + [b"new"]
        for node in (new, newer):
            if node is newer:
                await newer.start()  # it knows nothing of the group yet
            shown = await node.run("sub", LINK.text(), "--since", "1h", "--count", str(len(whole)))
            assert shown.code == 0, shown.stderr
            words = [line.split()[-1] for line in shown.stdout.splitlines()]
            assert sorted(words) == sorted(one.decode().split()[-1] for one in whole)
            said_before = [word for word in words if word != "new"]  # that one may count as news, and come at once
            assert said_before == [str(number) for number in range(OLD)]
