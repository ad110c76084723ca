"""Run an asynchronous command to its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable
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

    with as_ctrl_c():
        if before is not signal.SIG_IGN:
            return trio.run(command, *given, restrict_keyboard_interrupt_to_checkpoints=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # trio interrupts only where Ctrl-C would
        try:
            return trio.run(_interrupted, command, given, restrict_keyboard_interrupt_to_checkpoints=True)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


async def _interrupted(command: Callable[..., Awaitable[Result]], given: tuple[object, ...]) -> Result:
    with as_trio_interrupts():
        return await command(*given)
