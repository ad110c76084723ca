"""A signal ends every command that waits for a node which does not answer, or works long: quietly, with its code.

The commands are those that the command line lists, also of services, as far as they need no argument.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import click
import pytest
from rigs.commands import ROUTER, start_node, stop_node
from rigs.patience import HANG_S

from router.cli import main

Words = tuple[str, ...]
AT_ONCE = 4
SOME: tuple[Words, ...] = (
    ("status",),
    ("peer", "list"),
    ("clock", "confirm"),
    ("top",),
    ("doctor",),
    ("sub", "friends"),
)
OF_THE_MACHINE = {"service"}
"""Commands that change more than the home."""
MEANT_TO_BE_ENDED = {"sub", "recv"}
"""Commands that wait without end: code 0 once they wait."""


class Ended(NamedTuple):
    """A command that has ended. `signalled`: whether it ran when the signal was sent."""

    words: Words
    signalled: bool
    code: int
    said: str

    @property
    def is_as_told(self) -> bool:
        told = {130, 128 + signal.SIGTERM} | ({0} if self.words[0] in MEANT_TO_BE_ENDED else set())
        return "Traceback" not in self.said and (not self.signalled or self.code in told)


def commands(group: click.Command = main, before: Words = ()) -> Iterator[Words]:
    """Yield all commands that need no argument."""
    if isinstance(group, click.Group):
        ctx = click.Context(group)
        for name in group.list_commands(ctx):
            if name not in OF_THE_MACHINE and (found := group.get_command(ctx, name)) is not None:
                yield from commands(found, (*before, name))
    elif not any(one.required for one in group.params):
        yield before


def ended(home: Path, words: Words, number: signal.Signals) -> Ended:
    """Run a command, and send it a signal once it handles that."""
    command, pipe = [*ROUTER, "--home", str(home), *words], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=home) as process:
        began_s = monotonic()
        while process.poll() is None and not _handles(process.pid, number):
            assert monotonic() < began_s + HANG_S, words
            sleep(0.005)
        if signalled := process.poll() is None:
            process.send_signal(number)
        said = process.communicate(timeout=HANG_S)[1]
    return Ended(words, signalled, process.returncode, said)


def _handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal, by Linux's word."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) >> number - 1 & 1)


@contextmanager
def frozen_node(home: Path) -> Iterator[None]:
    """A node that does not answer, though whoever wants to can connect."""
    node, _ = start_node(home, "--verifiers", "0")
    try:
        os.kill(node.pid, signal.SIGSTOP)
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)
        stop_node(node)


def others(home: Path, tried: Sequence[Words]) -> list[Ended]:
    """Return the commands that a signal does not end as it should."""
    subprocess.run([*ROUTER, "--home", str(home), "group", "new", "friends"], check=True, capture_output=True)
    with frozen_node(home), ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda words: ended(home, words, signal.SIGTERM), tried))
    assert any(one.signalled for one in found)
    return [one for one in found if not one.is_as_told]


def test_a_signal_ends_some_commands_that_wait_for_a_node(tmp_path: Path) -> None:
    assert others(tmp_path / "home", SOME) == []


@pytest.mark.long
def test_a_signal_ends_every_command_that_waits_or_works(tmp_path: Path) -> None:
    assert others(tmp_path / "home", list(commands())) == []
