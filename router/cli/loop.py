"""Run an asynchronous command to its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar, TypeVarTuple

import trio

from router.cli.signals import as_ctrl_c, as_trio_interrupts

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


def run(command: Callable[[*Given], Awaitable[Result]], *given: *Given) -> Result:
    """Return the command's result. Ctrl-C is raised in its main task, where that waits, and never in midst of a step;
    so are SIGTERM and SIGHUP. Where Ctrl-C is ignored, as behind a shell's `&`, it stays ignored."""
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before not in (signal.default_int_handler, signal.SIG_IGN):
        return trio.run(command, *given, restrict_keyboard_interrupt_to_checkpoints=True)

    async def act() -> Result:
        with as_trio_interrupts() if before is signal.SIG_IGN else nullcontext():
            return await command(*given)

    with as_ctrl_c():
        return trio.run(act, restrict_keyboard_interrupt_to_checkpoints=True)
