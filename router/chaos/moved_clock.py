"""`router` with a wall clock that a file moves: `python -m router.chaos.moved_clock FILE ARGUMENT…`.

FILE holds seconds, also with a fraction, which may change while the process runs. Only this process is moved, not the
machine's clock.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from router.cli import main
from router.node.node import SystemClock


def move_clock(file: Path) -> None:
    """Let this process's nodes take their time from the system's clock and the file."""

    def wall_ns() -> int:
        return time.time_ns() + round(float(file.read_text()) * 1_000_000_000)

    SystemClock.wall_ns = staticmethod(wall_ns)  # type: ignore[method-assign]


if __name__ == "__main__":
    move_clock(Path(sys.argv.pop(1)))
    main(prog_name="router")
