"""A job that never ends holds up the next ones for a while only."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rigs.own_services import findable
from rigs.patience import HANG_S

from router.service import jobs


async def test_a_job_that_never_ends_is_ended_and_the_next_one_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (findable(tmp_path, monkeypatch) / "stalling.py").write_text(
        "import time\n\n\ndef work(argument):\n    return argument.upper() or time.sleep(1_000_000)\n"
    )
    put, done = trio.open_memory_channel[tuple[str, bytes, str]](9)
    one = jobs.Jobs(lambda *found: put.send_nowait(found))
    with trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            monkeypatch.setattr(jobs, "JOB_S", 0.1)
            one.put("stalling:work", b"", "never")
            assert await done.receive() == (
                "never", b"", "it took longer than 0.1 s, and its process was ended; let it do less at once",
            )  # fmt: skip
            monkeypatch.setattr(jobs, "JOB_S", HANG_S)
            one.put("stalling:work", b"again", "next")
            assert await done.receive() == ("next", b"AGAIN", "")
            nursery.cancel_scope.cancel()
