"""The command line that runs one of our modules in a separate process."""

from __future__ import annotations

import sys


def program(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `module` in this Python. `-P` keeps modules of the same name in the working
    directory from being loaded."""
    return [sys.executable, "-P", "-m", module, *arguments]
