"""The processes that a command may have left running."""

from __future__ import annotations

import os
from pathlib import Path


def processes(directory: Path) -> list[bytes]:
    """Return the command lines of processes that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue  # It has just ended.
    return [line for line in found if os.fsencode(directory) in line]
