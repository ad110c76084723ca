"""Processes of the node: the command line that runs one of our modules, and the signals that stop a node."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals on which a node drains and stops; its processes wait for it, as a service manager and a terminal signal all
of them at once."""


def program(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `module` in this Python. `-P` keeps modules of the same name in the working
    directory from being loaded."""
    return [sys.executable, "-P", "-m", module, *arguments]


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop this process: all of them, but SIGHUP only if it is not ignored, as under nohup."""
    return [one for one in STOP_SIGNALS if one is not signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]


def end_with_parent() -> None:
    """End this process when the other end of the pipe at standard input closes, however that happens."""
    if stat.S_ISFIFO(os.fstat(0).st_mode) or stat.S_ISSOCK(os.fstat(0).st_mode):
        threading.Thread(target=_wait_for_parent, name="parent", daemon=True).start()


def _wait_for_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
