"""The example of two wallets: one offers, the other finds it by a mask, they agree in a group; then it is rescinded."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import wallets
from rigs.serving import serving

from router.rig.process import until
from router.settings.home import Home


async def test_two_wallets_find_each_other_and_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[[node.services]]\nname = "capd"\nmodule = "services.capd"\nrun = "inside"\n')
    async with serving(home.path, {"link.goodbye_s": 0.5}), trio.open_nursery() as nursery:
        nursery.start_soon(wallets.find, "ada", str(home.path))
        said: list[str] = []

        async def looks() -> bool:
            said.extend(capsys.readouterr().out.splitlines())
            return "ada looks for offers" in said

        await until("ada looks for offers", looks)
        await wallets.offer("bob", "5 for 7", str(home.path))
    lines = said + capsys.readouterr().out.splitlines()
    assert lines[:3] == ["ada looks for offers", "bob offers: 5 for 7", "ada takes: 5 for 7"]
    assert set(lines[3:5]) == {"ada hears bob: agreed", "bob hears ada: done"}
    assert len(lines) == 6 and lines[5].startswith("bob rescinds 00")
