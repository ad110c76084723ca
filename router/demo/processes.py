"""The nodes and apps of the demo, each a process: started, read from, and killed by its pid."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import trio

import router
from router.actors.process import program
from router.client.errors import ClientError
from router.settings.home import Home

PATIENCE_S = 20.0  # without any news
POLL_S = 0.05
STOP_S = 15.0
LAST_WORDS_MAX = 300

Who = TypeVar("Who", bound="Child")


class DemoFailed(Exception):
    """Raised when the demo cannot go on; the text says where and why."""


class Child:
    """A process that reports in JSON lines, and may be started again after its end.

    `command`: a module and its arguments. `said`: the newest values it has reported since its start, by name. `on_news`
    is called at every line. If it ends unasked, the demo ends.
    """

    def __init__(self, name: str, command: tuple[str, ...], stage: Stage) -> None:
        self.name = name
        self.said: dict[str, Any] = {}
        self.on_news: Callable[[], None] = lambda: None
        self.errors_path = stage.base / f"{name.replace(' ', '-')}.stderr"
        self._command = command
        self._stage = stage
        self._process: trio.Process | None = None
        self._news = trio.Event()
        self._may_end = False

    def __repr__(self) -> str:
        return f"<{self.name}, {f'process {self._process.pid}' if self._process else 'not running'}>"

    async def start(self, *more: str) -> None:
        """Start it, and wait for its first line. The terminal's Ctrl-C, meant for the demo, does not reach it, but it
        ends with the demo all the same."""
        self.said, self._may_end = {}, False
        tie = self._stage.tie
        with self.errors_path.open("ab") as errors:
            self._process = await trio.lowlevel.open_process(
                program("router.demo.with_parent", str(tie), *self._command, *more), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, start_new_session=True, pass_fds=(tie,),
            )  # fmt: skip
        self._stage.nursery.start_soon(self._listen, self._process)
        await self.until("begin", lambda: bool(self.said))

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        async for line in lines(process.stdout):
            self.hear(json.loads(line))
            self._news.set()
            self._news = trio.Event()
            self.on_news()
        await process.wait()
        if not self._may_end:
            raise DemoFailed(f"{self.name} ended by itself, with code {process.returncode}{self._last_words()}")

    def _last_words(self) -> str:
        found = self.errors_path.read_text(errors="replace").splitlines()
        words = next((line for line in reversed(found) if line.strip()), "")
        return f"; its last words: {words[:LAST_WORDS_MAX]}" if words else ""

    def hear(self, line: dict[str, Any]) -> None:
        self.said.update(line)

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; raise `DemoFailed` after `PATIENCE_S` without any news."""
        while not condition():
            with trio.move_on_after(PATIENCE_S) as waiting:
                await self._news.wait()
            if waiting.cancelled_caught:
                raise DemoFailed(f"{self.name} did not {what}: no news for {PATIENCE_S:.0f} s after {self.said}")

    async def order(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        await self._process.stdin.send_all(f"{line}\n".encode())

    async def kill(self) -> None:
        """Kill it with SIGKILL; do nothing if it does not run."""
        process, self._process, self._may_end = self._process, None, True
        if process is not None:
            process.kill()
            await process.wait()


class Node(Child):
    """A node in its home."""

    def __init__(self, name: str, home: Path, stage: Stage) -> None:
        super().__init__(name, ("router", "--home", str(home), "serve", "--json"), stage)
        self.home = home
        self.address = ""

    async def router(self, *words: str, or_code: int = 0) -> str:
        """Run a `router` command on this home and return its output; `or_code`: an exit code that is fine, too."""
        command = program("router", "--home", str(self.home), *words)
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, start_new_session=True
        )
        if done.returncode not in (0, or_code):
            said = done.stderr.decode(errors="replace").strip()
            raise DemoFailed(f"`router {' '.join(words[:2])}` on {self.name} ended with {done.returncode}: {said}")
        return done.stdout.decode()

    async def ask(self, word: str) -> Any:
        """Return the node's answer to an operator's question."""
        try:
            async with router.connect(home=self.home) as node:
                return json.loads(await node.ask(word))
        except ClientError as error:
            raise DemoFailed(f"{self.name} does not answer: {error}") from None

    async def until_answer(self, what: str, word: str, condition: Callable[[Any], bool]) -> None:
        """Ask until the answer meets the condition; raise `DemoFailed` after `PATIENCE_S`."""
        answer: Any = None
        with trio.move_on_after(PATIENCE_S):
            while not condition(answer := await self.ask(word)):
                await trio.sleep(POLL_S)
            return
        raise DemoFailed(f"{self.name}: {what} did not happen within {PATIENCE_S:.0f} s; it answers {answer}")

    async def waiting(self) -> int:
        """Return how many messages are in its queues."""
        return sum(one["messages"] for one in await self.ask("queue"))

    async def stop(self) -> None:
        """Stop it with SIGTERM; raise `DemoFailed` unless it drains and exits with code 0."""
        assert self._process is not None
        process, self._may_end = self._process, True
        process.terminate()
        with trio.move_on_after(STOP_S):
            await process.wait()
        if process.returncode != 0:
            raise DemoFailed(f"{self.name} did not drain and stop within {STOP_S:.0f} s, code {process.returncode}")

    def clear(self) -> None:
        """Remove the socket's directory if it lies outside the home."""
        home = Home(self.home)
        if home.socket_path.parent != home.path:
            shutil.rmtree(home.socket_path.parent, ignore_errors=True)


class App(Child):
    """An app, by its module in this package. `taken`: ids of the messages it published and its node took."""

    def __init__(self, name: str, module: str, node: Node, stage: Stage, *arguments: str) -> None:
        super().__init__(name, (f"router.demo.{module}", str(node.home), *arguments), stage)
        self.taken: list[str] = []

    def hear(self, line: dict[str, Any]) -> None:
        super().hear(line)
        if "taken" in line:
            self.taken.append(line["taken"])

    @property
    def received(self) -> int:
        return int(self.said.get("received", 0))

    async def until_received(self, count: int) -> None:
        await self.until(f"receive {count} messages", lambda: self.received >= count)


class Stage:
    """The directory of all files, the nursery of the readers, and all processes of the demo.

    `tie`: the pipe's end that every child inherits, so that it ends with this process.
    """

    def __init__(self, base: Path, nursery: trio.Nursery) -> None:
        self.base = base
        self.nursery = nursery
        self.tie, self._our_end = os.pipe()
        self._children: list[Child] = []

    def node(self, name: str, directory: str) -> Node:
        return self._put_on(Node(name, self.base / directory, self))

    def app(self, name: str, module: str, node: Node, *arguments: str) -> App:
        return self._put_on(App(name, module, node, self, *arguments))

    def _put_on(self, child: Who) -> Who:
        self._children.append(child)
        return child

    def tracebacks(self) -> list[str]:
        """Return the names of the processes that printed a traceback."""
        paths = ((one.name, one.errors_path) for one in self._children)
        return [name for name, path in paths if path.exists() and b"Traceback" in path.read_bytes()]

    async def clear(self) -> None:
        """Kill every process that still runs, also when the demo is cancelled."""
        with trio.CancelScope(shield=True):
            for child in self._children:
                await child.kill()
                if isinstance(child, Node):
                    child.clear()
        os.close(self.tie)
        os.close(self._our_end)


async def lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    """Yield whole lines without their line ends."""
    rest = b""
    async for data in stream:
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line
