"""What monitors a real node: metrics of services found by their folder, each reason of not being ready, the drain."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.serving import serving
from rigs.web_sides import body_of, request, status_of

from router.client.custody.outbox import Outbox
from router.client.node import connect
from router.core.link.session import Offer
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.node.node import RunningNode, SystemClock
from router.rig.app_link import AppLink
from router.settings.config import load
from router.settings.home import Home

LINK = new_group(b"g" * 32, b"k" * 32)
RULES = """
from router.service import contract as c


class Tolling:
    def __init__(self, setup):
        self._is_mute = setup.name == "mute"

    def hear(self, heard, now):
        if isinstance(heard, c.Asked) and not self._is_mute:
            return [c.Answer(heard.number, {"rung": 7})]
        return []
"""
METRICS = """
from prometheus_client.core import CounterMetricFamily


def families(status):
    yield CounterMetricFamily("router_tolling_rings", "How often it was rung.", status["rung"])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of a service on Python's path, with metrics of its own."""
    files = {"__init__.py": "", "rules.py": RULES, "metrics.py": METRICS}
    (tmp_path / "path" / "tolling").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "path" / "tolling" / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    yield


def made(path: Path, port: int, *more: str) -> Home:
    home = Home(path / "home")
    home.create()
    blocks = [("web", "services.web"), *((name, "tolling") for name in more)]
    text = "[node]\nlisten = []\n"
    for name, module in blocks:
        text += f'[[node.services]]\nname = "{name}"\nmodule = "{module}"\nrun = "inside"\n'
    home.config_path.write_text(f'{text}[services.web]\nlisten = ""\noperator = "tcp://127.0.0.1:{port}"\n')
    return home


async def answer_of(port: int, path: str) -> tuple[int, bytes]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request(path, "Connection: close"))
        answer = b"".join([bytes(one) async for one in stream])
    return status_of(answer), body_of(answer)


async def reasons(port: int) -> list[str]:
    status, body = await answer_of(port, "/health/ready")
    found = json.loads(body)
    assert (status == 200) == found["ready"]
    return [one["reason"] for one in found.get("reasons", ())]


async def until_reasons(port: int, *wanted: str) -> None:
    while await reasons(port) != list(wanted):
        await trio.sleep(0.05)


async def metrics(port: int) -> dict[str, float]:
    status, body = await answer_of(port, "/metrics")
    assert status == 200, body
    return {
        f"{one.name}{sorted(one.labels.values())}": one.value
        for family in text_string_to_metric_families(body.decode()) for one in family.samples
    }  # fmt: skip


async def test_services_tell_their_metrics_and_a_mute_one_holds_up_no_other(folder: None, tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, port, "bell", "mute")
    pages: list[dict[str, float]] = []

    async def scrape() -> None:
        pages.append(await metrics(port))

    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(scrape)
            assert await reasons(port) == [] and not pages, "health does not wait for the mute service"
    for found in pages:
        assert found["router_tolling_rings_total['bell']"] == 7
        assert [found[f"router_service_told['{name}']"] for name in ("bell", "mute", "web")] == [1, 0, 1]
        assert found["router_service_up['mute']"] == 1 and "router_tolling_rings_total['mute']" not in found


async def test_node_that_drains_says_so(tmp_path: Path) -> None:
    """An app that neither reads nor closes holds the drain up."""
    port = free_port()
    home = made(tmp_path, port)
    config, _ = load(home.config_path, {"verify.verifiers": 0, "link.goodbye_s": 600.0})
    node, is_ready = RunningNode(home, config, lambda: config), trio.Event()
    app = AppLink(SigningKey(b"a" * 32), Offer("app", bytes(8), False, 8, 1 << 20, os.urandom(16)), Outbox(8, 1 << 20))
    with trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, lambda _: is_ready.set())
            await is_ready.wait()
            async with connect(home=home) as asker:
                router = await asker.until_up()
            await app.connect(f"unix://{home.socket_path}", router, HANG_S)
            await until_reasons(port)
            node.stop()
            await until_reasons(port, "draining")
            status, body = await answer_of(port, "/metrics")
            assert status == 503 and b"the node stops" in body
            assert (await answer_of(port, "/health/live"))[0] == 200
            await app.close()


@pytest.mark.long
async def test_full_disk_makes_the_node_not_ready_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    home, usage = made(tmp_path, port), shutil.disk_usage
    full = [False]

    def told(path: Any) -> Any:
        found = usage(path)
        return found._replace(free=1) if full[0] else found

    monkeypatch.setattr(shutil, "disk_usage", told)
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            await until_reasons(port)
            full[0] = True
            await until_reasons(port, "disk-full")
            assert (await metrics(port))["router_disk_free_bytes[]"] == 1
            full[0] = False
            await until_reasons(port)


async def test_log_that_cannot_be_written_makes_the_node_not_ready_and_its_events_are_counted(tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, port)
    with trio.fail_after(HANG_S):
        async with serving(home.path, {"log.segment_s": 1}):
            await until_reasons(port)
            aside = home.log_path.rename(home.path / "aside")
            home.log_path.write_text("in the way")
            await until_reasons(port, "log-behind")
            async with connect(home=home) as node:
                await node.join(LINK, timeout_s=HANG_S)
            while not (await metrics(port))["router_log_behind_events[]"]:
                await trio.sleep(0.05)
            home.log_path.unlink()
            aside.rename(home.log_path)
            await until_reasons(port)
            assert (await metrics(port))["router_log_behind_events[]"] == 0


@pytest.mark.long
async def test_doubted_clock_makes_the_node_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    home = made(tmp_path, port)
    ahead_ns, shown = [0], SystemClock.wall_ns
    monkeypatch.setattr(SystemClock, "wall_ns", staticmethod(lambda: shown() + ahead_ns[0]))
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            await until_reasons(port)
            ahead_ns[0] = 400 * 86_400 * 10**9
            await until_reasons(port, "doubted-clock")
            ahead_ns[0] = 0
            await until_reasons(port)
