"""Run an asynchronous command to its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar, TypeVarTuple

import trio

from router.cli.signals import as_ctrl_c

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


def run(command: Callable[[*Given], Awaitable[Result]], *given: *Given) -> Result:
    """Return the command's result. Ctrl-C is raised in its main task, where that waits, and never in midst of a step;
    so are SIGTERM and SIGHUP, unless Ctrl-C is ignored here, as it is behind a shell's `&`."""
    is_main = threading.current_thread() is threading.main_thread()
    is_heard = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with as_ctrl_c() if is_heard else nullcontext():
        return trio.run(command, *given, restrict_keyboard_interrupt_to_checkpoints=True)
