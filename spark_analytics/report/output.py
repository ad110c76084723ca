"""What the jobs print: results to standard output, errors and progress to standard error."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from .page.markup import SAID_MAX, plain


def say(text: str) -> None:
    """Print a line of the result."""
    _print(text, sys.stdout)


def remark(text: str) -> None:
    """Print a line of progress, or an error, without control characters and `SAID_MAX` characters of it at most."""
    _print(plain(text, SAID_MAX), sys.stderr)


def _print(line: str, to: TextIO) -> None:
    """Print a line. If its reader has gone, discard it and all that follows: what an audit is for are its tables."""
    try:
        print(line, file=to, flush=True)
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, to.fileno())
        os.close(null)
