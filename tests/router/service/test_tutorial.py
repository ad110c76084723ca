"""The service that docs/services.md builds runs: its files are written as they are in the paper."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.programs_in_papers import DOCS, programs
from rigs.serving import serving

from router.client.node import connect
from router.service.running import key_of
from router.settings.home import Home

PAPER = DOCS / "services.md"


def rung(port: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as button:
        button.settimeout(HANG_S)
        button.sendto(b"!", ("127.0.0.1", port))
        return button.recv(100)


async def noted_about(home: Home, id: bytes) -> list[str]:
    async with connect(home=home) as node:
        return [one["event"] for one in json.loads(await node.ask("why", id.hex(), timeout_s=HANG_S))["noted"]]


async def test_the_bell_of_the_paper_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = programs(PAPER.name)
    (tmp_path / "bell").mkdir()
    (tmp_path / "bell" / "__init__.py").touch()
    for name, text in shown.items():
        if name.startswith("bell/"):
            (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    subprocess.run([sys.executable, "-c", shown["a test"]], cwd=tmp_path, check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Home(tmp_path / "home")
    home.create()
    [config] = re.findall(r"```toml\n(\[node\].*?)```", PAPER.read_text(), re.DOTALL)
    home.config_path.write_text(config.replace("4445", str(port)))
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as node:
            hello = await node.send(key_of(home, "bell").public, b"hello")
            assert (await anext(node.unicasts())).body == b"ding"
            assert await trio.to_thread.run_sync(rung, port) == b"ding\n"
            assert json.loads(await node.ask("service", "bell count", timeout_s=HANG_S)) == {"rung": 2}
            while not (noted := await noted_about(home, hello)):
                await trio.sleep(0.02)
            assert noted == ["bell_rung"]
