"""The answer to `metrics` of a real node: what was delivered, committed and waits is counted as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.serving import serving

from router.client.node import connect
from router.core.wire.grouplink import new_group
from router.settings.home import Home

LINK = new_group(b"g" * 32, b"k" * 32)


async def metrics(home: Home) -> dict[str, Any]:
    async with connect(home=home) as asker:
        found: dict[str, Any] = json.loads(await asker.ask("metrics", timeout_s=HANG_S))
        return found


async def test_deliveries_are_counted_when_their_recipients_settle(tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with serving(tmp_path / "home", {}) as home, connect(home=home) as writer:
            before = await metrics(home)
            async with connect(home=home, as_name="one") as one, connect(home=home, as_name="two") as two:
                readers = [await node.join(LINK, timeout_s=HANG_S) for node in (one, two)]
                for number in range(3):
                    await writer.group(LINK).publish(b"%d" % number)
                for reader in readers:
                    messages = reader.messages(settle_on_next=False)
                    for _ in range(3):
                        await (await anext(messages)).settle()
                while (found := await metrics(home))["seconds"]["delivery"]["count"] < 6:
                    await trio.sleep(0.01)
            assert before["seconds"]["delivery"]["count"] == 0 and found["seconds"]["delivery"]["count"] == 6
            assert 0 < found["seconds"]["delivery"]["sum"] < 6 * HANG_S
            counts = {event: count for event, _, count in found["messages"]}
            assert (counts["accepted"], counts["delivered"]) == (3, 6) and "of_services" in found
            assert found["seconds"]["commit"]["count"] == found["commits"] > before["commits"]
            assert found["unverified"] == found["log_behind"] == 0 and found["unready"] == []
            assert 0 < found["store"]["used_bytes"] < found["store"]["bytes_max"]
            assert found["disk"]["free_bytes"] > found["disk"]["free_bytes_min"] > 0
            while not (await metrics(home))["seconds"]["loop_lag"]["count"]:
                await trio.sleep(0.05)


async def test_message_that_waited_on_the_disk_through_a_restart_is_counted_by_the_wall_clock(tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with serving(tmp_path / "home", {}) as home:
            async with connect(home=home, as_name="reader") as reader:
                await reader.join(LINK, timeout_s=HANG_S)
            async with connect(home=home) as writer:
                await writer.group(LINK).publish(b"waits")
        async with serving(home.path, {}), connect(home=home, as_name="reader") as reader:
            async for message in (await reader.join(LINK, timeout_s=HANG_S)).messages(settle_on_next=False):
                await message.settle()
                break
            while not (counted := (await metrics(home))["seconds"]["delivery"])["count"]:
                await trio.sleep(0.01)
            assert counted["count"] == 1 and counted["sum"] == int(counted["sum"]) < HANG_S


@pytest.mark.parametrize("most", [0, 1 << 30])
async def test_store_without_a_limit_may_fill_the_disk_but_for_what_is_to_stay_free(most: int, tmp_path: Path) -> None:
    async with serving(tmp_path / "home", {"store.map_bytes_max": most}) as home:
        found = await metrics(home)
    disk, store = found["disk"], found["store"]
    assert store["bytes_max"] == most or store["bytes_max"] >= disk["free_bytes"] - disk["free_bytes_min"]
