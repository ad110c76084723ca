"""Child processes that print lines: started, waited for by what they print, frozen, and killed by their pids.

There are no fixed pauses: a process is ready when it has printed its line, and every wait has a deadline, whose error
names what was awaited and what the process printed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import trio

HANG_S = 300.0
"""Seconds after which a wait counts as hung."""
POLL_S, POLL_S_MAX, POLL_SHARE = 0.01, 0.5, 0.1
given_up: list[str] = []
"""Descriptions of the waits that were cancelled before they ended, to explain why a test took too long."""


class RigFailed(Exception):
    """Something awaited did not come; the text says what, and what the process printed."""


class EndedCommand(NamedTuple):
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """Parse the output as JSON Lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]


@contextmanager
def waiting_for(what: Callable[[], str]) -> Iterator[None]:
    """Add `what()` to `given_up` if the block is cancelled from outside."""
    try:
        yield
    except BaseException:  # of one task or of several
        if trio.current_effective_deadline() == -inf:
            given_up.append(what())
        raise


async def run_command(command: Sequence[str], stdin: bytes = b"") -> EndedCommand:
    """Run the command to its end. A Ctrl-C on the terminal does not reach it."""
    with waiting_for(lambda: f"the end of `{' '.join(command)}`"), trio.fail_after(HANG_S):
        done = await trio.run_process(
            list(command), stdin=stdin, capture_stdout=True, capture_stderr=True, check=False, start_new_session=True
        )
    return EndedCommand(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


async def pause(since: float) -> None:
    """Sleep for a tenth of the wait so far before asking again, because asking takes CPU time from the process that is
    waited for."""
    await trio.sleep(min(POLL_S_MAX, max(POLL_S, POLL_SHARE * (trio.current_time() - since))))


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Poll until the condition holds; raise `RigFailed` after `HANG_S`."""
    began = trio.current_time()
    with waiting_for(lambda: what):
        while not await holds():
            if trio.current_time() > began + HANG_S:
                raise RigFailed(f"after {HANG_S:g} s still not: {what}")
            await pause(began)


class Process:
    """A child process that prints lines. A Ctrl-C on the terminal does not reach it.

    `stderr`: the file of its standard error. `tie`: the reading end of a pipe; when the pipe is closed, the process
    ends (`router.rig.with_parent`), whose command must end with one of `program`.
    """

    def __init__(self, name: str, command: Sequence[str], stderr: Path, tie: int | None = None) -> None:
        self.name = name
        self.command = list(command)
        self.stderr = stderr
        self._tie = tie
        self._process: trio.Process | None = None
        self._unread = b""
        self._is_waited_for = False

    def __repr__(self) -> str:
        return f"<{self.name}, {f'pid {self.pid}' if self.is_running else 'not running'}>"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def has_ended_by_itself(self) -> bool:
        """Whether it has ended, and nobody has waited for that, as `kill` and `stop` do."""
        return self._process is not None and self._process.returncode is not None and not self._is_waited_for

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def launch(self, *more: str) -> None:
        """Start the process, with further arguments, without waiting until it is ready."""
        assert not self.is_running
        command, ties = [*self.command, *more], () if self._tie is None else (self._tie,)
        if ties:
            at = command.index("-m") + 1
            command[at:at] = ["router.rig.with_parent", str(self._tie)]
        with self.stderr.open("ab") as stderr:
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                pass_fds=ties,
            )
        self._process, self._unread, self._is_waited_for = process, b"", False  # at once: others may look meanwhile

    async def start(self, *more: str) -> str:
        """Start the process and wait until it is ready."""
        await self.launch(*more)
        return await self.ready()

    async def ready(self) -> str:
        """Wait for the line that it prints when it is ready, and return it."""
        line = await self.line()
        if not line:
            raise RigFailed(f"{self.name} ended with code {await self.wait()} before it was ready: {self.said()}")
        return line

    async def line(self) -> str:
        """Return the next line; empty at the end of the output."""
        with waiting_for(lambda: f"a line of {self.name}"), trio.move_on_after(HANG_S):
            return await self.next_line() or ""
        raise RigFailed(f"{self.name} printed no line within {HANG_S:g} s: {self.said()}")

    async def next_line(self) -> str | None:
        """Return the next line, however long it takes; None at the end of the output."""
        assert self._process is not None and self._process.stdout is not None
        while b"\n" not in self._unread:
            try:
                data = await self._process.stdout.receive_some()
            except trio.ClosedResourceError:  # it was killed meanwhile
                return None
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    async def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process is not None and self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.kill(self.pid, number)

    async def kill(self) -> None:
        """Kill it with SIGKILL; do nothing if it was never started."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            await self.wait()

    async def stop(self) -> int:
        """Stop it with SIGTERM; return its exit code."""
        self.signal(signal.SIGTERM)
        return await self.wait()

    async def wait(self) -> int:
        process = self._process
        assert process is not None
        self._is_waited_for = True
        with waiting_for(lambda: f"the end of {self.name}"), trio.move_on_after(HANG_S):
            code = await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()
            return code
        raise RigFailed(f"{self.name} did not end within {HANG_S:g} s: {self.said()}")

    async def freeze(self) -> None:
        """Stop every thread of the process at once: its files are now as `kill -9` would leave them."""
        self.signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.pid}/task")
        while any(_state(task) != "T" for task in tasks.iterdir()):
            await trio.sleep(0)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def said(self) -> str:
        """Return the last lines of its standard error."""
        text = self.stderr.read_text(errors="replace") if self.stderr.exists() else ""
        return text[-2000:] or "nothing on standard error"


def free_ports(count: int) -> list[int]:
    """Return ports of this machine on which nobody listens."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"  # This thread has ended.
