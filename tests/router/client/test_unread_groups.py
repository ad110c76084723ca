"""A kept name that joined more groups than it reads, at a real node: those it reads flow, and no message of the others
is lost."""

from __future__ import annotations

from pathlib import Path

from rigs.serving import serving

from router.client.group import Group
from router.client.node import connect
from router.core.wire.crypto import SigningKey

READ, UNREAD = SigningKey(b"1" * 32), SigningKey(b"2" * 32)


async def read(group: Group, count: int) -> list[bytes]:
    bodies = []
    async for message in group.messages(settle_on_next=False):
        bodies.append(message.body)
        await message.settle()
        if len(bodies) == count:
            break
    return bodies


async def test_a_group_that_nobody_reads_stalls_no_other_and_waits_in_its_order(tmp_path: Path) -> None:
    settings = {"link.retry_backoff_s_min": 0.05, "link.retry_backoff_s_max": 0.2}
    async with (
        serving(tmp_path / "home", settings) as home,
        connect(home=home, as_name="both", window_messages=8) as app,
        connect(home=home) as speaker,
    ):
        mine, other = await app.join(READ, raw=True), await app.join(UNREAD, raw=True)
        for number in range(40):
            for group in (UNREAD, READ):
                await speaker.group(group, raw=True).publish(b"%d" % number)
        bodies = [b"%d" % number for number in range(40)]
        assert await read(mine, len(bodies)) == bodies
        assert app.problems.total == 1
        assert await read(other, len(bodies)) == bodies
