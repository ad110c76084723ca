"""Play the demo: a node with a web side, scripts, a reader elsewhere, and kill -9 between."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct, field
from prometheus_client.parser import text_string_to_metric_families

import router
from router.actors.process import program
from router.client.group import Group
from router.client.node import connect
from router.rig.node import NodeProcess, address_of
from router.rig.process import RigFailed, free_ports, run_command, until
from services.web.demo.script_client import Got, NoAnswer, ScriptClient

GROUP, READER = "friends", "reader"
FIRST = "disk full"
COUNTED = "router_delivery_seconds_count"
PAUSE_S = 0.05
"""How long a script waits before it sends again what was not answered."""


class Played(Struct):
    """The observations of a played demo."""

    messages: int
    killed_after: int = 0
    chat_page: int = 0
    ready: int = 0
    told: dict[str, Any] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    delivered: float = 0.0
    answered: int = 0
    repeated: int = 0
    kills: int = 0
    after_kill: int = 0
    waiting: int = 0
    received: list[str] = field(default_factory=list)
    why: list[dict[str, Any]] = field(default_factory=list)
    audit: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Stage:
    """A node in a directory. `tie`: as in `Process`; `say` is called with a sentence about each event."""

    def __init__(self, base: Path, tie: int | None, say: Callable[[str], None]) -> None:
        self._base = base
        self._say = say
        self._pages, self._operators = free_ports(2)
        self._key = router.SigningKey(os.urandom(32))
        self._link = ""
        self.home = router.Home(base / "node")
        self.node = NodeProcess("the node", self.home, base / "node.stderr", {"verify.verifiers": 0}, tie=tie)
        self._url = f"http://127.0.0.1:{self._pages}/"
        self._operator = ScriptClient(self._operators)

    async def run(self, *arguments: str) -> Any:
        """Run a command on the node's home; return what it prints as JSON."""
        done = await run_command(program("router", "--home", str(self.home.path), *arguments, "--json"))
        if done.code:
            raise RigFailed(f"router {' '.join(arguments[:2])} ended with code {done.code}: {done.stderr[-500:]}")
        return done.json

    # -- the scene -----------------------------------------------------------------------------------------

    async def play(self, messages: int) -> Played:
        """Play the demo to its end, and return the observations."""
        began_s, played = trio.current_time(), Played(messages, messages // 2)
        await self._begin(played)
        script = ScriptClient(self._pages, await self._token())
        await self._let_reader_in()
        await self._deliver_one(script, played)
        await self._look_at_health(played)
        await self._kill_between(script, played)
        await self._read_all(played)
        played.why = (await self.run("why", played.told["id"]))["noted"]
        if await self.node.stop():
            raise RigFailed(f"the node did not stop: {self.node.said()}")
        played.audit = (await run_command(program("router", "audit", str(self.home.path), "--json"))).json
        played.seconds = trio.current_time() - began_s
        return played

    async def _begin(self, played: Played) -> None:
        await self.run("init", "--service", "web")
        doors = f'listen = "tcp://127.0.0.1:{self._pages}"\noperator = "tcp://127.0.0.1:{self._operators}"\n'
        written = self.home.config_path.read_text()
        self.home.config_path.write_text(written.replace("[services.web]\n", f"[services.web]\n{doors}", 1))
        await self._start()
        self._say(f"A node with a web side runs; browsers find it at {self._url}")
        invitation = await self.run("web", "invite", "--group", GROUP)
        path = invitation["link"].removeprefix(self._url).partition("#")[0]
        played.chat_page = (await ScriptClient(self._pages).ask(f"/{path}")).status
        self._say(f"An invitation opens the chat at {self._url}{path}; its secret stands behind the #.")

    async def _start(self) -> None:
        await self.node.start()
        await until("the web side answers", self._is_ready)

    async def _is_ready(self) -> bool:
        try:
            return (await self._operator.ask("/health/ready")).status == 200
        except NoAnswer:
            return False

    async def _token(self) -> str:
        found = await self.run("web", "token", "alarm", "--publish", GROUP, "--read", GROUP)
        self._say(f'A script has got the token "alarm", with which it may publish in {GROUP}, and read there.')
        return str(found["token"])

    async def _let_reader_in(self) -> None:
        """Give the reader's key the rights of a client, and the reader the link of the group."""
        await self.run("peer", "add", self._key.public.hex(), "--name", READER, "--grant", "join,store")
        self._link = (await self.run("group", "share", GROUP))["link"]

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[Group]:
        """Connect the reader as an app elsewhere does: by a WebSocket, with a key of its own."""
        url, expect = f"ws{self._url.removeprefix('http')}link", address_of(self.home)
        async with connect(home=self._base / "elsewhere", key=self._key, url=url, expect=expect) as node:
            yield await node.join(self._link)

    async def _deliver_one(self, script: ScriptClient, played: Played) -> None:
        """Publish with a reader there, and ask what became of it."""
        async with self._reader() as group, trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, script, played)
            posted = await script.ask(f"/groups/{GROUP}", FIRST.encode())
            messages = group.messages(settle_on_next=False)
            message = await anext(messages)
            played.received.append(message.body.decode())
            await message.settle()
            told = await script.ask(f"/messages/{posted.json['id']}?wait=30")
            played.told = {**told.json, "id": posted.json["id"]}
        self._say("The script has posted a message; a reader has it over a WebSocket, and the script knows that.")

    async def _watch(self, script: ScriptClient, played: Played) -> None:
        """Read the group as a script does, until the first message has come."""
        async for one in script.lines(f"/groups/{GROUP}?since=10m"):
            if one.get("event") == "message":
                played.events.append(one["text"])
                return

    async def _look_at_health(self, played: Played) -> None:
        played.ready = (await self._operator.ask("/health/ready")).status
        page = (await self._operator.ask("/metrics")).body.decode()
        samples = (one for family in text_string_to_metric_families(page) for one in family.samples)
        played.delivered = next((one.value for one in samples if one.name == COUNTED), 0.0)
        self._say("The node says that it is ready, and its metrics count the delivery.")

    async def _kill_between(self, script: ScriptClient, played: Played) -> None:
        """Post while the reader is away; the node gets kill -9 in the midst of it."""
        async with trio.open_nursery() as nursery:
            reached = trio.Event()
            nursery.start_soon(self._post_all, script, played, reached)
            await reached.wait()
            await self.node.kill()
            played.kills += 1
            self._say(f"The reader is away. After {played.killed_after} more messages the node has got kill -9.")
            await self._start()
        rows = await self.run("queue")
        played.waiting = sum(one["messages"] for one in rows)
        self._say(f"It is back, and the script has posted the rest; {played.waiting} messages wait for the reader.")

    async def _post_all(self, script: ScriptClient, played: Played, reached: trio.Event) -> None:
        for number in range(played.messages):
            while (answer := await self._posted(script, number)) is None or answer.status != 201:
                played.repeated += 1
                await trio.sleep(PAUSE_S)
            played.answered += 1
            played.after_kill += played.kills
            if played.answered == played.killed_after:
                reached.set()

    async def _posted(self, script: ScriptClient, number: int) -> Got | None:
        """Return the answer to a message, which its key makes the same one however often it is sent; None without
        one."""
        try:
            return await script.ask(f"/groups/{GROUP}", b"%d" % number, Idempotency_Key=f"demo-{number}")
        except NoAnswer:
            return None

    async def _read_all(self, played: Played) -> None:
        async with self._reader() as group:
            messages = group.messages(settle_on_next=False)
            while played.messages - 1 > _last(played.received):
                message = await anext(messages)
                played.received.append(message.body.decode())
                await message.settle()
            await until("nothing waits any more", self._is_settled)
        self._say("The reader has come back, and read what it missed.")

    async def _is_settled(self) -> bool:
        return not await self.node.ask("queue")


def _last(received: list[str]) -> int:
    return max((int(one) for one in received if one.isdecimal()), default=-1)


@asynccontextmanager
async def staged(base: Path, say: Callable[[str], None], *, tied: bool = True) -> AsyncIterator[Stage]:
    """Yield a stage whose node ends with the block, and if `tied` with this process however it ends."""
    reading, writing = os.pipe()
    stage = Stage(base, reading if tied else None, say)
    try:
        yield stage
    finally:
        with trio.CancelScope(shield=True):
            await stage.node.kill()
        os.close(reading)
        os.close(writing)
