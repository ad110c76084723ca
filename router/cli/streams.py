"""Standard streams that whoever started the command has closed: Python has None in their place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import BinaryIO

from router.cli.exits import Exit, Failure

STANDARD = (0, 1, 2)
DASH = Path("-")
"""Where a command may write a file: to standard output."""


def hold_descriptors() -> None:
    """Open the null device at each of the three standard descriptors that is closed, and as standard error.

    A file or socket of the home would get the descriptor otherwise, and what a C library prints on it.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) in STANDARD:
        os.set_inheritable(opened, True)
    os.close(opened)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process runs


def input_at_terminal() -> bool:
    """Whether standard input is a terminal, so that somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def standard_input(remedy: str) -> BinaryIO:
    """Return the bytes of standard input; raise `Failure` with the remedy if it is closed."""
    if sys.stdin is None:
        raise Failure(Exit.USAGE, f"standard input is closed; {remedy}")
    return sys.stdin.buffer


def standard_output(remedy: str) -> BinaryIO:
    """Return where bytes are printed; raise `Failure` with the remedy if standard output is closed."""
    if sys.stdout is None:
        raise Failure(Exit.USAGE, f"standard output is closed; {remedy}")
    return sys.stdout.buffer


def no_terminal(what: str) -> None:
    """Raise `Failure` if a file that is no text would be printed on a terminal. `what`: what the file is."""
    if standard_output("name a file").isatty():
        raise Failure(Exit.USAGE, f"{what} is no text for a terminal: name a file, or pipe it")


@contextmanager
def beside(file: Path | None) -> Iterator[None]:
    """Print on standard error in this block if the file is `-`: standard output is for the file's content alone."""
    with redirect_stdout(sys.stderr) if file == DASH else nullcontext():
        yield
