"""Services that fill their disk, flood the log and block their process, beside an honest one and two talking apps:
`router status` reports each with its remedy, the others are not disturbed, and the honest state stays whole."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from disk import read_disk
from pair import Pair, undisturbed
from rig import NodeProcess, rig
from rigs.own_services import block, findable, until
from rigs.patience import HANG_S
from samples.log_facts import read_log

from router.client.node import connect
from router.disk.state.service_state import EVENTS_MAX, State
from router.rig import process
from router.service.running import key_of

MIB = 1 << 20
FILE_BYTES_MAX = 16 * MIB
MESSAGES = 24
NOTES = 10_500
HUNGRY = """
import os
from router.service.contract import Answer, Asked, Put, Message, Send

class Hungry:
    def __init__(self, setup):
        self.kept = setup.kept

    def hear(self, heard, now):
        match heard:
            case Message():
                n = len(self.kept)
                return [Put(b"%d" % n, (b"%04d" % n) * (1 << 18)), Send(heard.source, b"%d" % n)]
            case Asked(number):
                whole = all(value == (b"%04d" % int(key)) * (1 << 18) for key, value in self.kept.items())
                return [Answer(number, {"pid": os.getpid(), "kept": len(self.kept), "whole": whole})]
        return []
"""
FLOODING = f"""
from router.service.contract import Put, Message, LogEvent, Tick, Wake

class Flooding:
    def __init__(self, setup):
        self.kept = setup.kept

    def hear(self, heard, now):
        if not isinstance(heard, Message | Tick):
            return []
        n = int(self.kept.get(b"n", b"0"))
        notes = [LogEvent("flooding_said", fields={{"n": n + more}}) for more in range({NOTES})]
        return [Put(b"n", b"%d" % (n + {NOTES})), *notes, Wake(now.wall_s)]
"""
BLOCKING = """
import time
from pathlib import Path
from router.service.contract import Message, Send

class Blocking:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        if not isinstance(heard, Message):
            return []
        while heard.body and not Path(heard.body.decode()).exists():
            time.sleep(0.01)
        return [Send(heard.source, b"free")]
"""
BLOCKING_CLASS = """
import time
from pathlib import Path
from router.service import Service

class Blocking(Service):
    async def on_message(self, message):
        while message.body and not Path(message.body.decode()).exists():
            time.sleep(0.01)
        await self.node.send(message.source, b"free")
"""
RUNS = ("inside", "apart")
CONFIRMED = ("inside", pytest.param("apart", marks=pytest.mark.long))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = findable(tmp_path, monkeypatch)
    for name, text in (("hungry", HUNGRY), ("blocking", BLOCKING), ("blocking_class", BLOCKING_CLASS)):
        (found / f"{name}.py").write_text(text)
    (found / "flooding").mkdir()
    (found / "flooding" / "__init__.py").touch()
    (found / "flooding" / "rules.py").write_text(FLOODING)
    (found / "flooding" / "events.py").write_text('EVENTS = {"flooding_said": "It was said."}')
    return found


@asynccontextmanager
async def household(base: Path, module: str, run: str, settings: str = "") -> AsyncIterator[tuple[NodeProcess, Pair]]:
    """Run a node with the service `bad`, an honest one, and two apps that talk."""
    restart = {"node.service_restart_s_min": 0.05, "node.service_restart_s_max": 0.1}
    async with rig(base) as found:
        node = found.node("node", "edge", restart)
        node.home.config_path.write_text(block("bad", module, run) + block("echo", "services.echo") + settings)
        await node.start()
        async with undisturbed(node) as pair:
            yield node, pair
            await honest(node)


async def honest(node: NodeProcess) -> None:
    """Check that the honest service answers."""
    async with connect(home=node.home) as app:
        await app.send(key_of(node.home, "echo").public, b"well?")
        assert (await anext(app.unicasts())).body == b"echo: well?"


async def asked(node: NodeProcess, question: str = "") -> dict[str, Any]:
    async with connect(home=node.home) as app:
        found: dict[str, Any] = json.loads(await app.ask("service", f"bad {question}", timeout_s=HANG_S))
    return found


async def said(node: NodeProcess, *words: str) -> str:
    """Wait until `router status` says this of the service; return everything that it says of it."""
    found = await until(node.home, lambda services: all(word in services["bad"]["problem"] for word in words))
    return str(found["bad"]["problem"])


@pytest.mark.parametrize("run", RUNS)
async def test_one_that_fills_its_disk_waits_for_room_and_loses_nothing(tmp_path: Path, place: Path, run: str) -> None:
    async with household(tmp_path, "hungry", run) as (node, pair):
        await until(node.home, lambda services: services["bad"]["state"] == "running")
        pid = (await asked(node))["pid"]
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, most))
        async with connect(home=node.home) as app:
            for _ in range(MESSAGES):
                await app.send(key_of(node.home, "bad").public, b"more")
            problem = await said(node, "its file may grow no larger; raise the limit on the size of files")
            assert (
                str(node.home.path / "services" / "bad") in problem
                and "the service goes on where it stopped" in problem
            )
            await pair.goes_on()
            await honest(node)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
            answers = app.unicasts()
            assert [(await anext(answers)).body for _ in range(MESSAGES)] == [b"%d" % n for n in range(MESSAGES)]
        found = await asked(node)
        assert (found["kept"], found["whole"]) == (MESSAGES, True)


@pytest.mark.parametrize("run", CONFIRMED)
async def test_services_leave_the_node_the_room_that_it_needs(tmp_path: Path, place: Path, run: str) -> None:
    """If services could use all of the disk, one of them would make the node refuse all messages with the reason
    disk-full."""
    least = shutil.disk_usage(tmp_path).free * 6 // 10
    async with household(tmp_path, "hungry", run, f"[store]\ndisk_free_bytes_min = {least}\n") as (node, pair):
        async with connect(home=node.home) as app:
            await app.send(key_of(node.home, "bad").public, b"more")
        await said(node, "may not grow: its disk has", f"services leave {2 * least >> 20} to the node; make room")
        await pair.goes_on()


@pytest.mark.parametrize("run", CONFIRMED)
async def test_one_that_floods_the_log_is_slowed_and_no_event_is_lost(tmp_path: Path, place: Path, run: str) -> None:
    async with household(tmp_path, "flooding", run) as (node, pair):
        async with connect(home=node.home) as app:
            await app.send(key_of(node.home, "bad").public, b"speak")
        await said(
            node, "events wait for the node's log, so the service is stopped meanwhile: it notes more", "note fewer"
        )
        await pair.goes_on()
        await honest(node)
    disk = read_disk(node.home, node.address, tmp_path / "scratch")
    assert disk.last_seq
    lines = read_log(node.home.log_path, node.address).lines
    noted = [(one.fields or {})["n"] for one in lines if one.event == "flooding_said"]
    assert noted == list(range(len(noted)))
    state = State(node.home.path / "services" / "bad")
    first, waiting = state.events(1 << 30)
    count = int(state[b"n"])
    assert count == first - 1 + len(waiting) and count % NOTES == 0
    assert len(waiting) < EVENTS_MAX + NOTES, "a further flood waits until fewer than that wait"
    assert [json.loads(one)["fields"]["n"] for one in waiting] == list(range(first - 1, count))
    assert node.stderr.read_text().count("events wait for the node's log") <= 2, "it is not said again and again"


@pytest.mark.parametrize(("module", "at"), [("blocking", "in hear (blocking.py, line "),
                                            ("blocking_class", "in on_message (blocking_class.py, line ")])  # fmt: skip
async def test_one_that_blocks_its_own_process_is_named_while_it_does(
    tmp_path: Path, place: Path, module: str, at: str
) -> None:
    async with household(tmp_path, module, "apart") as (node, pair), connect(home=node.home) as app:
        free = tmp_path / "free"
        await app.send(key_of(node.home, "bad").public, str(free).encode())
        await said(node, "it has been blocking its process for", at, "let it")
        await pair.goes_on()
        await honest(node)
        free.touch()
        await said(node, "it blocked its process for", at)
        assert (await anext(app.unicasts())).body == b"free"


@pytest.mark.parametrize("module", [pytest.param("blocking", marks=pytest.mark.long), "blocking_class"])
async def test_one_that_blocks_the_node_is_named_on_standard_error(tmp_path: Path, place: Path, module: str) -> None:
    """Nothing can interrupt the service; callers that wait for the node read its name, and afterwards everything goes
    on."""
    async with household(tmp_path, module, "inside") as (node, _), connect(home=node.home) as app:
        free = tmp_path / "free"
        await app.send(key_of(node.home, "bad").public, str(free).encode())

        async def is_named() -> bool:
            return "the service bad: it has been blocking its process for" in node.said()

        await process.until("the service is named", is_named)
        free.touch()
        await said(node, "it blocked its process for", "or run it apart")
        assert (await anext(app.unicasts())).body == b"free"
