"""Who plays in the demo: nodes and apps, each a process of its own, started, heard, and killed by its pid."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import trio

import router
from router.home import Home

PATIENCE_S = 20.0  # without any news
POLL_S = 0.05
STOP_S = 10.0
READ_BYTES = 1 << 16
LAST_WORDS_MAX = 300

PYTHON = (sys.executable, "-m")


class DemoFailed(Exception):
    """The story cannot go on; the text says where and why."""


class Child:
    """A process that tells what it does in JSON lines. `said` is the newest of each kind since its start."""

    def __init__(self, name: str, command: tuple[str, ...], stage: Stage) -> None:
        self.name = name
        self.said: dict[str, Any] = {}
        self._command = command
        self._stage = stage
        self._process: trio.Process | None = None
        self._news = trio.Event()
        self._dismissed = False

    def __repr__(self) -> str:
        return f"<{self.name}, {f'pid {self._process.pid}' if self._process else 'not running'}>"

    @property
    def errors_path(self) -> Path:
        return self._stage.base / f"{self.name.replace(' ', '-')}.stderr"

    async def start(self, *more: str) -> None:
        """Returns when it has said its first line."""
        self.said, self._dismissed = {}, False
        with self.errors_path.open("ab") as errors:
            self._process = await trio.lowlevel.open_process(
                [*self._command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        self._stage.nursery.start_soon(self._listen, self._process)
        await self.until("begin", lambda: bool(self.said))

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        async for line in lines(process.stdout):
            self.hear(json.loads(line))
            self._news.set()
            self._news = trio.Event()
        await process.wait()
        if not self._dismissed:
            raise DemoFailed(f"{self.name} ended by itself, with code {process.returncode}{self._last_words()}")

    def _last_words(self) -> str:
        found = self.errors_path.read_text(errors="replace").split("\n")
        words = next((line for line in reversed(found) if line.strip()), "")
        return f"; its last words: {words[-LAST_WORDS_MAX:]}" if words else ""

    def hear(self, line: dict[str, Any]) -> None:
        self.said.update(line)

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """As long as there is news, we wait."""
        while not condition():
            with trio.move_on_after(PATIENCE_S) as scope:
                await self._news.wait()
            if scope.cancelled_caught:
                raise DemoFailed(f"{self.name} did not {what}: nothing new for {PATIENCE_S:.0f} s, {self.said}")

    async def order(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        await self._process.stdin.send_all(f"{line}\n".encode())

    async def kill(self) -> None:
        """As `kill -9` does."""
        if self._process is not None:
            self._dismissed = True
            self._process.kill()
            await self._process.wait()
            self._process = None

    async def stop(self) -> int:
        """By SIGTERM; its exit code."""
        assert self._process is not None
        process, self._dismissed = self._process, True
        process.terminate()
        with trio.move_on_after(STOP_S):
            await process.wait()
        await self.kill()
        return process.returncode or 0


class Node(Child):
    """A node by its home."""

    def __init__(self, name: str, home: Path, stage: Stage) -> None:
        super().__init__(name, (*PYTHON, "router", "--home", str(home), "serve", "--json"), stage)
        self.home = home
        self.address = ""

    async def router(self, *words: str) -> str:
        """What a `router` command prints that is run on this home."""
        command = [*PYTHON, "router", "--home", str(self.home), *words]
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, start_new_session=True
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise DemoFailed(f"`router {' '.join(words[:2])}` on {self.name} failed: {said}")
        return done.stdout.decode()

    async def ask(self, word: str) -> Any:
        async with router.connect(home=self.home) as node:
            return json.loads(await node.ask(word))

    async def until_answer(self, what: str, word: str, condition: Callable[[Any], bool]) -> None:
        """Ask again and again until the node's answer is right."""
        answer: Any = None
        with trio.move_on_after(PATIENCE_S):
            while not condition(answer := await self.ask(word)):
                await trio.sleep(POLL_S)
            return
        raise DemoFailed(f"{self.name}: {what} did not happen within {PATIENCE_S:.0f} s; it answers {answer}")

    async def waiting(self) -> int:
        """Messages in its queues."""
        return sum(one["messages"] for one in await self.ask("queue"))

    def clear(self) -> None:
        """Take away the socket's directory, where that lies outside the home."""
        directory = Home(self.home).socket_path.parent
        if directory != Home(self.home).path:
            shutil.rmtree(directory, ignore_errors=True)


class App(Child):
    """An app by its module in this package; `taken`: the ids of what it published that its node took."""

    def __init__(self, name: str, module: str, node: Node, stage: Stage, *arguments: str) -> None:
        super().__init__(name, (*PYTHON, f"router.demo.{module}", str(node.home), *arguments), stage)
        self.taken: list[str] = []

    def hear(self, line: dict[str, Any]) -> None:
        super().hear(line)
        if "taken" in line:
            self.taken.append(line["taken"])
        self._stage.news()

    @property
    def received(self) -> int:
        return int(self.said.get("received", 0))


Who = TypeVar("Who", bound=Child)


class Stage:
    """The directory that holds everything, the nursery of those who listen, and who has been put on."""

    def __init__(self, base: Path, nursery: trio.Nursery, news: Callable[[], None]) -> None:
        self.base = base
        self.nursery = nursery
        self.news = news
        self._children: list[Child] = []

    def node(self, name: str, directory: str) -> Node:
        return self._put_on(Node(name, self.base / directory, self))

    def app(self, name: str, module: str, node: Node, *arguments: str) -> App:
        return self._put_on(App(name, module, node, self, *arguments))

    def _put_on(self, child: Who) -> Who:
        self._children.append(child)
        return child

    def tracebacks(self) -> list[str]:
        """Who printed one."""
        paths = ((one.name, one.errors_path) for one in self._children)
        return [name for name, path in paths if path.exists() and b"Traceback" in path.read_bytes()]

    async def clear(self) -> None:
        """Kill whoever is still there, also when all is cancelled."""
        with trio.CancelScope(shield=True):
            for child in self._children:
                await child.kill()
                if isinstance(child, Node):
                    child.clear()


async def lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    rest = b""
    async for data in stream:
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line
