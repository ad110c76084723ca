"""The service that docs/services.md builds runs: its files are written as they are in the paper."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import Struct
from rigs.own_services import ask, block, findable, one_service, running
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.programs_in_papers import DOCS, programs
from rigs.serving import serving
from rigs.web_sides import body_of, request, status_of

from router.client.node import Node, connect
from router.service.exposition import of_service, page_of
from router.service.plugins import Plugin, load_families
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


async def counted(node: Node, event: str) -> int:
    """Return how often this event counts since the start of the node."""
    rows = json.loads(await node.ask("metrics", timeout_s=HANG_S))["messages"]
    return sum(row[-1] for row in rows if row[0] == event)


async def test_the_lines_of_the_paper_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = programs(PAPER.name)["lines/rules.py"]
    async with (
        one_service(tmp_path, monkeypatch, "lines", rules) as (home, _),
        await trio.open_unix_socket(str(home.path / "desk.sock")) as desk,
    ):
        await desk.send_all(b"one\ntw")
        await desk.send_all(b"o\nfriend\nbye\n")
        said = b""
        while data := await desk.receive_some():
            said += data
    assert said == b"welcome, user of this machine\nONE\nTWO\nFRIEND\nbye\n"


def test_warnings_as_the_paper_shows_them_are_called() -> None:
    [shown] = re.findall(r"`(warnings\(.*?\))`", PAPER.read_text())
    made: dict[str, Any] = {"Struct": Struct}
    exec(
        f"class Settings(Struct):\n    def {shown}:\n        yield f'{{name}}: {{is_public}} {{has_neighbours}}'", made
    )
    plugin = Plugin("bell", None, None, made["Settings"], {})
    assert plugin.warnings({}, "bell", is_public=True, has_neighbours=False) == ["bell: True False"]


def with_web_side(config: str, port: int) -> str:
    """Return the paper's configuration, with a web side at this port."""
    named = config.replace(
        'services = ["bell"]', 'services = ["bell", {name = "web", module = "services.web", run = "inside"}]'
    )
    assert named != config
    return f'{named}\n[services.web]\noperator = ""\nlisten = "tcp://127.0.0.1:{port}"\n'


async def rung_over_http(port: int) -> tuple[int, Any]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request("/bell/ring", "Connection: close", method="POST", body=b""))
        whole = b"".join([bytes(one) async for one in stream])
    return status_of(whole), json.loads(body_of(whole))


async def test_the_bell_of_the_paper_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = programs(PAPER.name)
    (tmp_path / "bell").mkdir()
    (tmp_path / "bell" / "__init__.py").touch()
    for name, text in shown.items():
        if name.startswith("bell/"):
            (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    subprocess.run([sys.executable, "-c", shown["a test"]], cwd=tmp_path, check=True)
    port, web_port = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)
    home = Home(tmp_path / "home")
    home.create()
    [config] = re.findall(r"```toml\n(\[node\].*?)```", PAPER.read_text(), re.DOTALL)
    home.config_path.write_text(with_web_side(config.replace("4445", str(port)), web_port))
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as node:
            hello = await node.send(key_of(home, "bell").public, b"hello")
            assert (await anext(node.unicasts())).body == b"ding"
            assert await trio.to_thread.run_sync(rung, port) == b"ding\n"
            assert await rung_over_http(web_port) == (200, "ding")
            assert await ask(node, "bell count") == {"rung": 3}
            while not (noted := await noted_about(home, hello)):
                await trio.sleep(0.02)
            assert noted == ["bell_rung"]


async def test_the_metrics_of_the_paper_are_of_this_service_and_events_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, place = programs(PAPER.name), findable(tmp_path, monkeypatch)
    (place / "bell").mkdir()
    for name in ("__init__.py", *(name.removeprefix("bell/") for name in shown if name.startswith("bell/"))):
        (place / "bell" / name).write_text(shown.get(f"bell/{name}", ""))
    for name in [one for one in sys.modules if one.partition(".")[0] == "bell"]:  # of another test's folder
        monkeypatch.delitem(sys.modules, name)
    families = load_families("bell")
    assert families is not None
    _, page = page_of(of_service("bell", "bell", families({"rung": 3})))
    assert b'router_bell_rings_total{service="bell"} 3.0' in page
    async with running(tmp_path, block("bell", "bell")) as (home, node):
        for _ in range(3):
            await node.send(key_of(home, "bell").public, b"hello")
        while await ask(node, "bell count") != {"rung": 3}:
            pass
        while (rung := await counted(node, "bell_rung")) < 3:
            await trio.sleep(0.02)
        assert rung == 3
