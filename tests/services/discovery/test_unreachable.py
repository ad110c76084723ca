"""A core that others cannot reach is reported where the operator looks."""

from __future__ import annotations

from pathlib import Path

import trio
from rigs.own_services import until
from rigs.patience import HANG_S
from rigs.serving import serving

from router.core.neighbours.own_advertisement import NOWHERE
from router.settings.config_services import NewHomeService
from router.settings.home import Home


async def test_a_core_that_listens_nowhere_cannot_be_made_known_and_says_what_to_do(tmp_path: Path) -> None:
    home = tmp_path / "h"
    Home(home).create("core", ("unix:other.sock",), {"discovery": NewHomeService({"sampling": True})})
    with trio.fail_after(HANG_S):
        async with serving(home, {}) as served:
            found = await until(served, lambda services: bool(services["discovery"]["problem"]))
    assert found["discovery"]["problem"] == f"it cannot make this node known: {NOWHERE}"
    assert found["discovery"]["state"] == "running"
