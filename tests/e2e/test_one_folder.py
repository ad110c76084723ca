"""A service is one folder (law 1), shown by running one that a test writes into a directory.

Its setting is in the sample, its command in the help, its reason's sentence with the refusal, its event in the log and
in `why`, its door answers, and its counter survives `kill -9`. No other file changes.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import trio
from rig import free_port
from rigs.patience import HANG_S

from router.actors.process import program
from router.cli.exits import Exit
from router.rig.process import Process, until

FOLDER = {
    "__init__.py": '"""Counts what is sent to it."""\n',
    "settings.py": """
from typing import Annotated
from router.service.settings import Struct, about, span

class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    \"\"\"A tally.\"\"\"

    most: Annotated[int, span(1, 100, "The most that is counted.")] = 3
    door: Annotated[str, about("Where to ask over UDP.")] = ""
""",
    "reasons.py": """
from router.core.wire.reasons import Reason

FULL = Reason.declare(777, "ledger:full", "The ledger counts no further.")
""",
    "events.py": 'EVENTS = {"ledger_counted": "Something was counted."}\n',
    "commands.py": """
import click
from router.cli.command import Command, invocation
from router.cli.output import say
from router.cli.services import ask_service

COMMANDS = {"ledger": "Say how much was counted."}

@click.command(cls=Command)
def ledger() -> None:
    \"\"\"Say how much was counted.\"\"\"
    say(str(ask_service(invocation().home, "ledger", "count")["count"]))
""",
    "rules.py": """
from router.service.contract import Answer, Asked, Came, Put, Message, LogEvent, Refuse, Write
from services.ledger.reasons import FULL

class Ledger:
    def __init__(self, setup):
        self.kept, self.settings = setup.kept, setup.settings

    def doors(self):
        return {"door": self.settings.door}

    def hear(self, heard, now):
        count = int(self.kept.get(b"count", b"0"))
        match heard:
            case Message() if count >= self.settings.most:
                return [Refuse(FULL), LogEvent("ledger_counted", heard.id, FULL)]
            case Message():
                fields = {"count": count + 1}
                return [Put(b"count", b"%d" % (count + 1)), LogEvent("ledger_counted", heard.id, fields=fields)]
            case Asked(number):
                return [Answer(number, {"count": count})]
            case Came(door, peer):
                return [Write(door, peer, b"%d" % count)]
        return []
""",
}


def write(place: Path) -> None:
    """Write the service's one folder."""
    (place / "services" / "ledger").mkdir(parents=True)
    (place / "services" / "__init__.py").touch()
    for name, text in FOLDER.items():
        (place / "services" / "ledger" / name).write_text(text)


class Node:
    """A node in a process, and commands that connect to it."""

    def __init__(self, path: Path) -> None:
        self.home = path / "home"
        self.process = Process("node", self.command("serve", "--verifiers", "0"), path / "stderr")

    def command(self, *arguments: str) -> list[str]:
        return program("router", "--home", str(self.home), *arguments)

    async def run(self, *arguments: str, code: int = Exit.DONE) -> str:
        done = await trio.run_process(self.command(*arguments), capture_stdout=True, capture_stderr=True, check=False)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout.decode() + done.stderr.decode()

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self.run(*arguments, "--json"))

    async def start(self) -> None:
        await self.process.start()
        await until("the service runs", self.is_there)

    async def is_there(self) -> bool:
        [one] = (await self.json("status"))["services"]
        return bool(one["state"] == "running")


def asked_at_door(port: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.settimeout(HANG_S)
        door.sendto(b"?", ("127.0.0.1", port))
        return door.recv(100)


async def test_all_of_a_service_is_found_in_its_folder_and_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "place")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "place"))
    node, port = Node(tmp_path), free_port()
    with trio.fail_after(HANG_S):
        await node.run("init")
        sample = (node.home / "router.toml").read_text()
        assert "#[services.ledger]" in sample and "# The most that is counted. (1 to 100)\n#most = 3" in sample
        assert re.search(r"ledger +Say how much was counted\.", await node.run("--help"))
        config = f'[node]\nservices = ["services.ledger"]\n[services.ledger]\ndoor = "udp://127.0.0.1:{port}"\n'
        (node.home / "router.toml").write_text(config)
        assert "is in order" in await node.run("config", "check")
        await node.start()
        sent = [(await node.json("send", "service-ledger", body, "--wait"))["id"] for body in ("one", "two", "three")]
        refused = await node.run("send", "service-ledger", "four", "--wait", code=Exit.REFUSED)
        assert "ledger:full" in refused, refused
        assert await node.run("ledger") == "3\n"
        assert await trio.to_thread.run_sync(asked_at_door, port) == b"3"
        assert (await node.json("status"))["reasons"] == {"ledger:full": 1}

        await node.process.kill()
        await node.start()
        assert await node.run("ledger") == "3\n", "the counter lasts"
        await until("the log has each event once", lambda: are_noted(node, sent))
        await node.process.stop()


async def are_noted(node: Node, ids: list[str]) -> bool:
    """Whether `why` shows for each message the counter's value, once."""
    noted = [(await node.json("why", id))["noted"] for id in ids]
    said = [[(one["event"], one["fields"]) for one in each] for each in noted]
    return said == [[("ledger_counted", {"service": "ledger", "count": count})] for count in (1, 2, 3)]
