"""How a command ends what it has started: Ctrl-C, SIGTERM and a closed terminal end it and all its processes.

A process that is tied (`Process`, `tie`) ends also if the command is killed by SIGKILL.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import cache
from inspect import iscoroutinefunction
from types import FrameType
from typing import Any, TypeVar, cast

import click
import trio

from router.cli.signals import handling

Given = TypeVar("Given")
Found = TypeVar("Found")
Scenario = Callable[[Given], Awaitable[Found]] | Callable[[Given], Found]
"""What a command measures or plays: a coroutine function where it waits for anything, else a plain one."""


@cache
def tie_to_this_process() -> int:
    """Return the reading end of a pipe whose other end this process alone holds: the system closes it when this
    process ends, however it ends."""
    reading, _ = os.pipe()
    return reading


async def until_signalled(act: Callable[..., Awaitable[Found]], *given: Any) -> Found:
    """Return what `act` returns. If a signal comes that stops a command, cancel it, wait until it has ended, and raise
    `click.Abort`."""
    token, everything, ended = trio.lowlevel.current_trio_token(), trio.CancelScope(), list[int]()

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)
        token.run_sync_soon(everything.cancel)

    try:
        with handling(end), everything:
            found = await act(*given)
            if not ended:
                return found
    except Exception:  # A command that the same signal has ended fails what is done here.
        if not ended:
            raise
    raise click.Abort


def play(act: Scenario[Given, Found], given: Given) -> Found:
    """Return what `act` returns. A signal that stops a command ends one that waits where it waits, by `click.Abort`,
    and one that only computes anywhere, by `KeyboardInterrupt`."""
    if iscoroutinefunction(act):
        return cast(Found, trio.run(until_signalled, act, given))
    return cast(Callable[[Given], Found], act)(given)
