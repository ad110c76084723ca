"""The rig of these tests: a test that hangs reports what it waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rig import rig
from rigs.patience import HANG_S
from trio.testing import MockClock

from router.rig.process import RigFailed, until


async def test_who_waits_too_long_says_for_what_and_what_the_processes_said_last(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async def never() -> bool:
        return False

    with pytest.raises(RigFailed) as failed:
        async with rig(tmp_path) as found, trio.open_nursery() as nursery:
            one = found.process("one", "sh", "-c", "echo half way >&2; echo ready; exec sleep 1000")
            await one.start()
            nursery.start_soon(until, "what never comes", never)
            nursery.start_soon(one.line)
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(HANG_S + 1)
    first, *waits, last = str(failed.value).splitlines()
    assert first == "after 300 s still waited for:" and last == "one said last: half way"
    assert sorted(waits) == ["a line of one", "what never comes"]
