"""The nodes and apps of the demo, each a process that reports in JSON lines."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import trio

from router.actors.process import program
from router.client.errors import ClientError
from router.rig.node import NodeProcess
from router.rig.process import HANG_S, Process, RigFailed
from router.settings.home import Home

Who = TypeVar("Who", bound="Child")
T = TypeVar("T")


class Child(Process):
    """A child process that may be started again after its end; if it ends by itself, the demo fails.

    `news`: the latest values that it has reported since its start, by name. `on_news` is called at every line.
    """

    _stage: Stage

    def __init__(self, *made: Any, **more: Any) -> None:
        super().__init__(*made, **more)
        self.news: dict[str, Any] = {}
        self.on_news: Callable[[], None] = lambda: None
        self._changed = trio.Event()
        self._starts = 0

    async def ready(self) -> str:
        self._starts += 1
        self.news = {}
        line = await super().ready()
        self.hear(json.loads(line))
        self._stage.nursery.start_soon(self._listen, self._starts)
        return line

    async def _listen(self, start: int) -> None:
        while (line := await self.next_line()) is not None:
            self.hear(json.loads(line))
            self._changed.set()
            self._changed = trio.Event()
            self.on_news()
        if start == self._starts:
            raise RigFailed(f"{self.name} ended by itself, with code {await self.wait()}: {self.said()}")

    def hear(self, line: dict[str, Any]) -> None:
        self.news.update(line)

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; raise `RigFailed` if there is no news for `HANG_S`."""
        while not condition():
            with trio.move_on_after(HANG_S) as waiting:
                await self._changed.wait()
            if waiting.cancelled_caught:
                raise RigFailed(f"{self.name} did not {what}: no news for {HANG_S:.0f} s after {self.news}")

    async def kill(self) -> None:
        self._starts += 1
        await super().kill()

    async def stop(self) -> int:
        """Stop it with SIGTERM; raise `RigFailed` unless it drains and exits with code 0."""
        self._starts += 1
        code = await super().stop()
        if code != 0:
            raise RigFailed(f"{self.name} did not drain and stop, code {code}: {self.said()}")
        return code


class DemoNode(Child, NodeProcess):
    """A node in its home."""

    def __init__(self, name: str, path: Path, stage: Stage) -> None:
        self._stage = stage
        self.address = ""
        super().__init__(name, Home(path), stage.errors_path(name), {}, tie=stage.tie)

    async def router(self, *words: str, or_code: int = 0) -> str:
        """Run a `router` command on this home and return its output. `or_code`: an exit code that is accepted besides
        0."""
        done = await self.run(*words)
        if done.code not in (0, or_code):
            said = done.stderr.strip()
            raise RigFailed(f"`router {' '.join(words[:2])}` on {self.name} ended with {done.code}: {said}")
        return done.stdout

    async def ask(self, word: str) -> Any:
        try:
            return await super().ask(word)
        except ClientError as error:
            raise RigFailed(f"{self.name} does not answer: {error}") from None

    async def waiting(self) -> int:
        """Return the number of messages in the node's queues."""
        return sum(one["messages"] for one in await self.ask("queue"))

    def clear(self) -> None:
        """Remove the socket's directory if it lies outside the home."""
        if self.home.socket_path.parent != self.home.path:
            shutil.rmtree(self.home.socket_path.parent, ignore_errors=True)


class App(Child):
    """An app, by its module in this package. `taken`: ids of the messages that it published and its node took custody
    of."""

    def __init__(self, name: str, module: str, node: DemoNode, stage: Stage, *arguments: str) -> None:
        self._stage = stage
        self.taken: list[str] = []
        command = program(f"router.demo.{module}", str(node.home.path), *arguments)
        super().__init__(name, command, stage.errors_path(name), tie=stage.tie)

    def hear(self, line: dict[str, Any]) -> None:
        super().hear(line)
        if "taken" in line:
            self.taken.append(line["taken"])

    @property
    def received(self) -> int:
        return int(self.news.get("received", 0))

    async def until_received(self, count: int) -> None:
        await self.until(f"receive {count} messages", lambda: self.received >= count)


class Stage:
    """The directory of all files, and all processes of the demo, whose output is read in a nursery.

    `tie`: the pipe's end that every child inherits, so that it ends with this process.
    """

    def __init__(self, base: Path, nursery: trio.Nursery) -> None:
        self.base = base
        self.nursery = nursery
        self.tie, self._our_end = os.pipe()
        self._children: list[Child] = []

    def node(self, name: str, directory: str) -> DemoNode:
        return self._put_on(DemoNode(name, self.base / directory, self))

    def app(self, name: str, module: str, node: DemoNode, *arguments: str) -> App:
        return self._put_on(App(name, module, node, self, *arguments))

    def _put_on(self, child: Who) -> Who:
        self._children.append(child)
        return child

    def errors_path(self, name: str) -> Path:
        return self.base / f"{name.replace(' ', '-')}.stderr"

    def tracebacks(self) -> list[str]:
        """Return the names of the processes that printed a traceback."""
        paths = ((one.name, one.stderr) for one in self._children)
        return [name for name, path in paths if path.exists() and b"Traceback" in path.read_bytes()]

    async def clear(self) -> None:
        """Kill every process that still runs, also when the demo is cancelled."""
        with trio.CancelScope(shield=True):
            for child in self._children:
                await child.kill()
                if isinstance(child, DemoNode):
                    child.clear()
        os.close(self.tie)
        os.close(self._our_end)


async def on_stage(base: Path, play: Callable[[Stage], Awaitable[T]]) -> T:
    """Return what `play` returns on a stage in this directory; every process of the stage ends with it."""
    async with trio.open_nursery() as nursery:
        stage = Stage(base, nursery)
        try:
            found = await play(stage)
        finally:
            await stage.clear()
        nursery.cancel_scope.cancel()
    return found
