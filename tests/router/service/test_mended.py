"""A warning of a service that holds no more is shown no longer."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rigs.own_services import ask, one_service, until

RULES = """
from router.service import contract as c


class Worrier:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        match heard:
            case c.Asked(number, "warn", text):
                return [c.Warn(text), c.Answer(number, True)]
            case c.Asked(number, "inform", text):
                return [c.Inform("it is in order", mends=text), c.Answer(number, True)]
        return []
"""


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_status_shows_a_warning_until_it_is_mended_and_no_other_one_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    async with one_service(tmp_path, monkeypatch, "worrier", RULES, run=run) as (home, node):
        while (await ask(node, "worrier warn the lamp is out")) is not True:
            await trio.sleep(0.02)
        await until(home, lambda found: found["worrier"]["problem"] == "the lamp is out")
        assert await ask(node, "worrier warn the door is open")
        assert await ask(node, "worrier inform the lamp is out")
        await until(home, lambda found: found["worrier"]["problem"] == "the door is open")
        assert await ask(node, "worrier inform the door is open")
        await until(home, lambda found: not found["worrier"]["problem"])
