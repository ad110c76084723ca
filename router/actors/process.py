"""The command that runs one of our modules as a process of its own."""

from __future__ import annotations

import sys


def program(module: str, *arguments: str) -> list[str]:
    """Run `module` by this Python, which takes no module from the working directory (`-P`): another's may lie there."""
    return [sys.executable, "-P", "-m", module, *arguments]
