"""The files of a home that a node reads while it starts, and that commands may change just then: there is no socket yet
by which they could tell it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from router.settings.config import Config
from router.settings.home import Home
from router.settings.received import DIRECTORY

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of change of each file."""


class StartFiles:
    """Loads the configuration, and knows whether it or an invitation has changed since the last time."""

    def __init__(self, home: Home, load: Callable[[], Config]) -> None:
        self._home = home
        self._load = load
        self._read: Stamp | None = None

    def __repr__(self) -> str:
        return f"<files of {self._home}{'' if self._read is None else ', read'}>"

    def __call__(self) -> Config:
        """Return the configuration as it is now. Raise `ConfigError`."""
        self._read = self._stamp()
        return self._load()

    def have_changed(self) -> bool:
        """Whether `router.toml` or an invitation is another than when they were read last; False before that."""
        return self._read is not None and self._read != self._stamp()

    def _stamp(self) -> Stamp:
        found = [self._home.config_path]
        with suppress(OSError):
            found += sorted((self._home.path / DIRECTORY).iterdir())
        rows = []
        for path in found:
            with suppress(OSError):
                one = path.stat()
                rows.append((path.name, one.st_ino, one.st_size, one.st_mtime_ns))
        return tuple(rows)
