"""A node as a process: a home, `router serve` on it, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

import router
from router.actors.process import program
from router.core.wire.crypto import PublicKey
from router.rig.process import HANG_S, EndedCommand, Process, RigFailed, pause, run_command, waiting_for
from router.settings import keyring
from router.settings.home import Home


class NodeProcess(Process):
    """A node. `settings`: its settings by name; `flags`: further arguments of `router serve`; `served_by`: the command
    that runs in place of `router`."""

    def __init__(
        self,
        name: str,
        home: Home,
        stderr: Path,
        settings: Mapping[str, object],
        *flags: str,
        served_by: Sequence[str] = (),
        tie: int | None = None,
    ) -> None:
        super().__init__(name, (), stderr, tie)
        self.home = home
        self.settings = dict(settings)
        self.flags = flags
        self.served_by = served_by or program("router")
        self.told: dict[str, Any] = {}

    async def launch(self, *more: str) -> None:
        settings = [part for name, value in self.settings.items() for part in ("--set", f"{name}={_toml(value)}")]
        self.command = [*self.served_by, "--home", str(self.home.path), "serve", "--json", *self.flags, *settings]
        await super().launch(*more)

    async def ready(self) -> str:
        """Keep the line that the node prints when it is ready, decoded, in `told`."""
        line = await super().ready()
        self.told = json.loads(line)
        return line

    async def run(self, *args: str, stdin: bytes = b"") -> EndedCommand:
        """Run a command on this home in a process."""
        return await run_command(program("router", "--home", str(self.home.path), *args), stdin)

    async def ask(self, word: str) -> Any:
        """Return the node's answer to an inquiry (`status`, `queue`, `groups`, `peers`), without starting a process.
        Raise `ClientError`."""
        async with router.connect(home=self.home) as app:
            return json.loads(await app.ask(word, timeout_s=HANG_S))

    async def until_answer(self, what: str, word: str, holds: Callable[[Any], bool]) -> None:
        """Ask until the answer meets the condition."""
        answer: Any = None
        began = trio.current_time()
        with waiting_for(lambda: f"{self.name}: {what}; it answers {answer}"), trio.move_on_after(HANG_S):
            while not holds(answer := await self.ask(word)):
                await pause(began)
            return
        raise RigFailed(f"{self.name}: {what} did not happen within {HANG_S:g} s; it answers {answer}")


def address_of(home: Home) -> PublicKey:
    """Return the address of a home's node, whose key is made if there is none yet."""
    return keyring.load_or_create(home, keyring.NODE).public


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
