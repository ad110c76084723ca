"""Processes of the node: the command line that runs one of our modules, and the signals that stop a node."""

from __future__ import annotations

import signal
import sys

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
