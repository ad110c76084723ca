"""A child process that is started again counts as running, or as ended by somebody, at every moment of that."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from router.rig.process import HANG_S, Process


async def test_who_looks_while_a_killed_process_starts_again_sees_none_that_ended_by_itself(tmp_path: Path) -> None:
    child = Process("child", [sys.executable, "-c", "input()"], tmp_path / "stderr")
    seen: list[bool] = []

    async def look() -> None:
        while len(seen) < 100 or not child.is_running:
            seen.append(child.has_ended_by_itself)
            await trio.sleep(0)

    await child.launch()
    await child.kill()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await child.launch()
    assert not any(seen)
    await child.tell("")
    with trio.fail_after(HANG_S):
        while not child.has_ended_by_itself:
            await trio.sleep(0.01)
    await child.kill()
