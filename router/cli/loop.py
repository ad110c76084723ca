"""Run an asynchronous command to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


def run(command: Callable[[*Given], Awaitable[Result]], *given: *Given) -> Result:
    """Return the command's result. Ctrl-C is raised in its main task, where that waits, and never in midst of a
    step."""
    return trio.run(command, *given, restrict_keyboard_interrupt_to_checkpoints=True)
