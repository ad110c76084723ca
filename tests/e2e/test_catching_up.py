"""A long absence on real nodes: an edge whose queue was dropped comes back, gets the messages that cores still hold,
and reports it."""

from __future__ import annotations

from pathlib import Path

import pytest
from overlay_nodes import core, edge
from rig import new_key, rig
from rigs.patience import HANG_S

from router.client.group import Group
from router.client.node import connect
from router.core.wire.grouplink import GroupLink
from router.core.wire.text import key_text

KEY = new_key()
GROUP = GroupLink(KEY.public, bytes(range(32)), KEY.seed, "news")
EXPIRED = 3
SHORT_MIN = 1  # what expires so soon is not compared


async def read(group: Group, count: int) -> tuple[list[int], int]:
    """Return the numbers of the next messages, and how many came before their cause or after their effect; fail if such
    a message is not marked."""
    found: list[int] = []
    seen, marked = {-1}, 0
    async for message in group:
        number = int(message.body)
        marked += bool(message.missing) or message.late
        assert number - 1 in seen or message.missing, f"{number} came before {number - 1} and does not say so"
        seen.add(number)
        found.append(number)
        if len(found) == count:
            break
    return found, marked


@pytest.mark.parametrize("missed", [200, pytest.param(20_000, marks=pytest.mark.long)])
async def test_a_long_absence(missed: int, tmp_path: Path) -> None:
    """An app that is away misses 200 messages, or 20,000, three of which have expired when it is back."""
    held = missed - EXPIRED
    async with rig(tmp_path, within_s=HANG_S * (1 + missed // 5_000)) as found:
        up, away = core(found, "core"), edge(found, "edge")
        up.serves(away)
        await up.start()
        await away.start()
        async with connect(home=away.home, as_name="reader") as app:
            await app.join(GROUP, order="causal")
            await up.until_joined(GROUP.group, away.address)
        await up.until_drained(away.address)
        await away.kill()
        await up.until_connected(away.address, up=False)
        async with connect(home=up.home) as app:
            await app.group(GROUP).publish_many([b"%d" % number for number in range(held)])
            await app.group(GROUP).publish_many(
                [b"%d" % number for number in range(held, missed)], expiry_min=SHORT_MIN
            )
        assert await up.queued(away.address) == missed
        assert (await up.run("queue", "drop", key_text("addr", away.address))).code == 0
        await up.until_drained(away.address)
        await away.start()
        async with connect(home=away.home, as_name="reader") as app:
            got, marked = await read(await app.join(GROUP, order="causal", gap_s=HANG_S), held)
            assert sorted(got) == list(range(held))
            assert not marked, f"{marked} came before their causes"
            async for one in app.caught_up:
                if one.of:
                    assert (one.group, one.missing, one.of) == (GROUP.group, EXPIRED, missed)
                    assert str(one).endswith(f"; {EXPIRED} of {missed:,} have expired everywhere")
                    break
        await away.kill()
        await away.start()
        async with connect(home=away.home, as_name="later") as app:
            await app.join(GROUP)
            async for one in app.caught_up:  # kept over the kill, for those who have not heard it
                if one.of:
                    assert (one.group, one.missing, one.of) == (GROUP.group, EXPIRED, missed)
                    break
        earlier = await away.run("sub", GROUP.text(), "--since", "1h", "--count", str(held))
        assert earlier.code == 0 and len(earlier.stdout.splitlines()) == held
