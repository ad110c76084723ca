"""A CAPD pool on a real node whose disk has too little room answers what is asked, and goes on when there is room."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from rig import QUICK

from router.cli import main
from router.rig.node import NodeProcess
from router.settings.home import Home

SERVICES = '[node]\nservices = ["services.capd"]\n'


@pytest.mark.long
async def test_a_real_node_whose_disk_fills(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text(SERVICES)
    node = NodeProcess("node", home, tmp_path / "stderr", QUICK)
    free = shutil.disk_usage(tmp_path).free

    async def capd(*words: str, code: int = 0) -> str:
        whole = ["--home", str(home.path), "capd", *words, "--json"]
        ended = await trio.to_thread.run_sync(CliRunner().invoke, main, whole)
        assert ended.exit_code == code, (words, ended.output)
        return ended.stdout if code == 0 else ended.output

    async def served_under(least: int, refusal: str) -> None:
        home.config_path.write_text(f"{SERVICES}\n[store]\ndisk_free_bytes_min = {least}\n")
        await node.start()
        try:
            assert [json.loads(one)["id"] for one in (await capd("query", "--prefix", "544b44")).splitlines()] == [
                own_id
            ]
            assert json.loads(await capd("get", own_id))["state"] == "relayed"
            assert json.loads(await capd("info"))["count"] == 1
            assert refusal in await capd("post", "TKD more", code=4)
        finally:
            await node.stop()

    await node.start()
    own_id = json.loads(await capd("post", "TKD offer"))["id"]
    await node.stop()
    await served_under(free * 6 // 10, "disk-full: The disk of this node is nearly full (make room there")
    await served_under(free * 2, "make room there, and ask again; what the pool has answered is safe")
    home.config_path.write_text(SERVICES)
    await node.start()
    try:
        assert json.loads(await capd("post", "TKD more"))["id"] != own_id
        assert json.loads(await capd("info"))["count"] == 2
    finally:
        await node.stop()
