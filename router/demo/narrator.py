"""Print the story in whole sentences as it happens, and on a terminal the progress in between."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.status import Status


class Telling:
    """Prints to standard output; if standard output is kept for JSON, to standard error, but only at a terminal."""

    def __init__(self, *, for_json: bool) -> None:
        file = sys.stderr if for_json else sys.stdout
        self._console = Console(file=file, highlight=False, markup=False, emoji=False)
        self._console.quiet = for_json and not file.isatty()
        self._status: Status | None = None

    def say(self, sentence: str) -> None:
        """Print a sentence, on a pipe as one line. Raise `BrokenPipeError` if the pipe has no reader."""
        if self._console.is_terminal:
            self._console.print(sentence)
        elif not self._console.quiet:
            click.echo(sentence, self._console.file)

    def progress(self, text: str) -> None:
        """Replace the progress on a terminal; print nothing into a pipe."""
        if self._status is not None:
            self._status.update(text)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Show progress on a terminal while the block runs."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status("") as self._status:
            yield
        self._status = None
