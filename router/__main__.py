"""The command `router`, also as `python -m router`."""

from __future__ import annotations

import atexit
import signal
from collections.abc import Callable

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run the command line. Ctrl-C before it is loaded ends the process without a traceback, and no signal after its
    end changes the exit code."""
    atexit.register(_ignore_signals)  # the first of them, so it runs last
    _load_command_line()()


def _load_command_line() -> Callable[[], None]:
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from router.cli import main as command_line

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command_line


def _ignore_signals() -> None:
    for one in STOPPING:
        signal.signal(one, signal.SIG_IGN)


if __name__ == "__main__":
    main()
