"""The names of a home's groups and keys, read from the disk in a thread and answered from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import trio

from router.core.wire.text import counted

NAMES_S = 10.0
"""Seconds for which names count as read while their folder has not changed: a file may be mended in its place."""


class GroupNames:
    """Names of groups, or of kept keys, by their keys. `folder`: where these are; `read` returns the names
    from the disk."""

    def __init__(self, folder: Path, read: Callable[[], Mapping[bytes, str]]) -> None:
        self._folder = folder
        self._read = read
        self._names: Mapping[bytes, str] = {}
        self._changed_ns = -1
        self._read_s = 0.0
        self._wanted = trio.Event()

    def __repr__(self) -> str:
        return f"<{counted(len(self._names), 'name')} of {self._folder.name}>"

    def known(self) -> Mapping[bytes, str]:
        """Return the names that were read last, without looking at the disk, and have `run` look for changes."""
        self._wanted.set()
        return self._names

    async def look(self) -> None:
        """Read the names if the folder has changed, or if they were read long ago."""
        is_old = trio.current_time() - self._read_s >= NAMES_S
        changed_ns, names = await trio.to_thread.run_sync(self._look, self._changed_ns, is_old)
        if names is not None:
            self._changed_ns, self._names, self._read_s = changed_ns, names, trio.current_time()

    def _look(self, known_ns: int, is_old: bool) -> tuple[int, Mapping[bytes, str] | None]:
        """Return when the folder was changed, and the names if they are to be read again."""
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except OSError:  # it is made with the first of them
            changed_ns = 0
        return changed_ns, self._read() if is_old or changed_ns != known_ns else None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look at the beginning, and each time that the names were asked for."""
        await self.look()
        task_status.started()
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            await self.look()
