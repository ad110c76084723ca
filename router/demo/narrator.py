"""Tells the story: whole sentences as it happens, and on a terminal, meanwhile, how far it has come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.status import Status


class Telling:
    """On standard output; where that is wanted for JSON, on standard error if that is a terminal."""

    def __init__(self, *, for_json: bool) -> None:
        file = sys.stderr if for_json else sys.stdout
        self._console = Console(file=file, highlight=False, markup=False, emoji=False)
        self._console.quiet = for_json and not file.isatty()
        self._status: Status | None = None

    def say(self, sentence: str) -> None:
        """On a pipe one line each; `BrokenPipeError` if nobody reads them."""
        if self._console.is_terminal:
            self._console.print(sentence)
        elif not self._console.quiet:
            click.echo(sentence, self._console.file)

    def progress(self, text: str) -> None:
        """Takes the place of what was said so before; nothing on a pipe."""
        if self._status is not None:
            self._status.update(text)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While somebody may want to see progress."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status("") as self._status:
            yield
        self._status = None
