"""History as an app reads it from its own node: whole, however fast it asks and however large the messages are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.serving import serving

from router.client.history import AT_ONCE, history
from router.client.node import Node, connect
from router.core.wire.grouplink import new_group
from router.settings.home import Home

LINK = new_group(b"g" * 32, b"k" * 32, "club")


async def carried_by_pubsub(node: Node) -> None:
    """Wait until the pub/sub service of the node is in the group, too."""
    while [row["group"] for row in json.loads(await node.ask("groups"))].count(LINK.group.hex()) < 2:
        await trio.sleep(0.01)


@pytest.mark.parametrize(("count", "size"), [(2 * AT_ONCE, 200_000), (600, 20)], ids=["large", "many"])
async def test_history_is_whole(tmp_path: Path, count: int, size: int) -> None:
    """The messages asked for at once may be more than fits the app's window, or than its rate allows."""
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["services.pubsub"]\n')
    bodies = [b"%d " % number + bytes(size) for number in range(count)]
    with trio.fail_after(HANG_S):
        async with serving(home.path, {"limits.pulls_routers_per_s": 200.0}):
            async with connect(home=home, as_name="away") as reader, connect(home=home) as speaker:
                await reader.join(LINK)
                await carried_by_pubsub(reader)
                await speaker.group(LINK).publish_many(bodies)
            async with connect(home=home) as late:
                await late.join(LINK)
                assert [one.body async for one in history(late, LINK.group, 0)] == bodies
