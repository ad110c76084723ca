"""The command line that runs one of our modules in a separate process."""

from __future__ import annotations

import sys


def program(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `module` in this Python, with `-P`: the working directory may hold foreign modules
    of the same names."""
    return [sys.executable, "-P", "-m", module, *arguments]
