"""The keys of the alarms that the command of --notify has taken, in a file that outlives a crash."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

KEYS_MAX = 5_000
"""Least number of the newest keys that are known: as many as may wait for the command."""


class Taken:
    """Knows which alarms the command has taken. Without a file it knows those of this process alone.

    Each key is on the disk when `add` returns. A line that was cut off is no key, so that alarm is told again.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._keys = dict[str, None]()
        if file is not None:
            with suppress(FileNotFoundError):
                text = file.read_text("utf-8", errors="replace")
                self._keys = dict.fromkeys(text.splitlines())
                if text and not text.endswith("\n"):
                    _append(file, [""])

    def __repr__(self) -> str:
        return f"<{len(self._keys)} alarms that the command has taken>"

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        """Note down one more; raise `OSError` if the disk does not take it."""
        self._keys[key] = None
        if len(self._keys) > 2 * KEYS_MAX:
            self._keys = dict.fromkeys(list(self._keys)[-KEYS_MAX:])
            if self._file is not None:
                draft = self._file.with_name(f"{self._file.name}.draft")
                draft.unlink(missing_ok=True)
                _append(draft, self._keys)
                draft.replace(self._file)
        elif self._file is not None:
            _append(self._file, [key])


def _append(file: Path, keys: Iterable[str]) -> None:
    """Append a line for each key, and wait until the disk has them."""
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{key}\n" for key in keys)
        opened.flush()
        os.fsync(opened.fileno())
