"""The names of the keys that the home keeps, for rows about apps and services that the configuration does not name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from router.core.wire.now import Now

NAMES_S = 10.0
"""Seconds for which names are not read again."""


class KeptNames:
    """The names by key. `read` returns them from the disk."""

    def __init__(self, read: Callable[[], Mapping[bytes, str]] = dict) -> None:
        self._read = read
        self._names: Mapping[bytes, str] = {}
        self._read_s = -inf

    def __repr__(self) -> str:
        return f"<{len(self._names)} names>"

    def at(self, now: Now) -> Mapping[bytes, str]:
        """Return the names, read anew if that was not done lately."""
        if now.mono_s - self._read_s >= NAMES_S:
            self._names, self._read_s = self._read(), now.mono_s
        return self._names
