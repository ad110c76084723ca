"""A service is one folder (law 6), shown by running one that a test writes into a directory.

Its setting is in the sample, its command in the help, its reason's sentence with the refusal, its event in the log and
in `why`, its door answers, and its counter survives `kill -9`. Another one has a role by a line of its folder, whatever
its name is. No other file changes.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.actors.process import program
from router.cli.exits import Exit
from router.client.node import Node as Client
from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.rig.process import Process, until
from router.service.running import key_of
from router.settings.home import Home

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

CROWD = {
    "__init__.py": '"""Takes no part in any group."""\n\nROLE = "overlay"\n',
    "rules.py": """
from router.service.contract import Answer, Asked, Put
from router.service.roles.overlay import AckWanted, Wanted

class Crowd:
    def __init__(self, setup):
        self.kept = setup.kept

    def hear(self, heard, now):
        match heard:
            case Wanted(group, wanted):
                times = int(self.kept.get(group, b"0")) + 1
                return [Put(bytes(group), b"%d" % times), AckWanted(group, wanted, success=False)]
            case Asked(number):
                return [Answer(number, {key.hex(): int(times) for key, times in self.kept.items()})]
        return []
""",
}
GROUP = SigningKey(bytes((71,)) * 32)


def write(place: Path, name: str, folder: Mapping[str, str]) -> None:
    """Write a service's one folder."""
    (place / "services" / name).mkdir(parents=True)
    (place / "services" / "__init__.py").touch()
    for file, text in folder.items():
        (place / "services" / name / file).write_text(text)


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
        await until("the services run", self.is_there)

    async def is_there(self) -> bool:
        return all(one["state"] == "running" for one in (await self.ask("status"))["services"])

    async def ask(self, word: str, argument: str = "") -> Any:
        """Ask the running node, without starting a process."""
        async with connect(home=Home(self.home)) as app:
            return json.loads(await app.ask(word, argument, timeout_s=HANG_S))


def asked_at_door(port: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.settimeout(HANG_S)
        door.sendto(b"?", ("127.0.0.1", port))
        return door.recv(100)


async def test_all_of_a_service_is_found_in_its_folder_and_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "place", "ledger", FOLDER)
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
        assert noted(await node.json("why", sent[-1])) == [("ledger_counted", {"service": "ledger", "count": 3})]
        await node.process.stop()


async def are_noted(node: Node, ids: list[str]) -> bool:
    """Whether `why` shows for each message the counter's value, once."""
    said = [noted(await node.ask("why", id)) for id in ids]
    return said == [[("ledger_counted", {"service": "ledger", "count": count})] for count in (1, 2, 3)]


def noted(why: Any) -> list[tuple[str, Any]]:
    return [(one["event"], one["fields"]) for one in why["noted"]]


async def test_a_folder_with_a_role_hears_what_the_role_does_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "place", "crowd", CROWD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "place"))
    node = Node(tmp_path)
    with trio.fail_after(HANG_S):
        await node.run("init")
        (node.home / "router.toml").write_text('[node]\nservices = ["services.crowd"]\n')
        await node.start()
        [row] = (await node.json("status"))["services"]
        assert (row["name"], row["role"]) == ("crowd", "overlay")
        home = Home(node.home)
        service = key_of(home, "crowd").public.hex()
        async with connect(home=home) as reader:
            await reader.join(GROUP)
            while not (refused := [one for one in await joins(reader) if "refused_by" in one]):
                await trio.sleep(0.02)
            assert [(one["group"], one["refused_by"]) for one in refused] == [(GROUP.public.hex(), service)]
            assert json.loads(await reader.ask("service", "crowd all")) == {GROUP.public.hex(): 1}, "acknowledged"
        await node.process.stop()


async def joins(node: Client) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in json.loads(await node.ask("log", "0"))["lines"]]
    return [line["fields"] for line in lines if line["event"] == "join"]


async def test_two_folders_with_one_role_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "place", "crowd", CROWD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "place"))
    node = Node(tmp_path)
    block = '[[node.services]]\nname = "{}"\nmodule = "services.crowd"\n'
    said = 'the services "left" and "right" both have the role overlay, of which a node has one; take one of them out'
    with trio.fail_after(HANG_S):
        await node.run("init")
        (node.home / "router.toml").write_text(block.format("left") + block.format("right"))
        for command in (("config", "check"), ("serve",)):
            refused = await node.run(*command, code=Exit.USAGE)
            assert f"line 4: {said} of node.services" in refused, refused
