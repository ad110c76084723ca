"""Snapshots by the node's own clock: when they are due, one process for each, and what is told of them."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio
from msgspec import DecodeError, ValidationError, json

from router.actors.process import program
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.now import Now
from router.core.wire.text import printable
from router.disk.snapshot import directory as snapshots
from router.disk.snapshot.series import SnapshotTimer, of_home
from router.node.residents import child_environment, end_process
from router.node.snapshot_process import SnapshotDone, SnapshotFailed
from router.settings.config_backup import Backup
from router.settings.own_successions import former_keys

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""How often the clock that runs on in standby is read, and how long the directory may take to be listed."""
MAKING_S_MIN = 3600.0
"""How long one snapshot may take; or as long as from one to the next, if that is more."""
ANSWER_BYTES_MAX = 1 << 20
OVERDUE = 2
"""After how many times its time the newest snapshot is called too old."""


class Snapshots:
    """Makes the snapshots of the home `home`, whose node has the key `router`. `now`: both clocks of this machine."""

    def __init__(self, home: Path, router: bytes, now: Callable[[], Now], settings: Backup) -> None:
        self._home, self._router, self._now, self._backup = home, router, now, settings
        self._changed = trio.Event()
        self._begin(settings)

    def __repr__(self) -> str:
        return f"<snapshots into {self._backup.directory or 'nothing'}>"

    def _begin(self, settings: Backup) -> None:
        self._backup, self._due = settings, SnapshotTimer(settings.every_s, self._now().mono_s, None)
        self._since_s = self._now().mono_s
        self._newest: tuple[str, int, int] | None = None  # name, Unix time, bytes
        self._kept, self._held_s, self._is_running = 0, 0.0, False
        self._damaged: list[str] = []
        self._problem, self._problem_s = "", 0.0
        self._counts = {"made": 0, "failed": 0}

    def configure(self, settings: Backup) -> None:
        """Take other settings; a snapshot that is being made by the former ones is given up."""
        if settings != self._backup:
            self._backup = settings
            self._changed.set()

    def facts(self) -> dict[str, Any] | None:
        """Return what `router status` tells, None if no directory is named. Ages and waits are in seconds; `overdue`:
        whether the newest is older than twice its time."""
        settings, now_s = self._backup, self._now().mono_s
        if not self._backup.directory:
            return None
        age_s = self._due.age_s(now_s)
        name, at_s, size = self._newest or ("", None, 0)
        return {
            "directory": settings.directory,
            "every_s": settings.every_s,
            "keep": settings.keep,
            "plain": self._backup.plain,
            "running": self._is_running,
            "newest": name,
            "newest_at_s": at_s,
            "age_s": None if age_s is None else round(age_s),
            "bytes": size,
            "kept": self._kept,
            "held_s": round(self._held_s, 3),
            "damaged": self._damaged,
            "next_s": round(max(0.0, self._due.at_s - now_s)),
            "problem": self._problem,
            "problem_age_s": round(now_s - self._problem_s) if self._problem else None,
            "overdue": (now_s - self._since_s if age_s is None else age_s) > OVERDUE * settings.every_s,
            **self._counts,
        }

    async def run(self) -> None:
        """Make them, and begin anew when the settings change."""
        while True:
            self._changed = trio.Event()
            self._begin(self._backup)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._make_all)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    async def _make_all(self) -> None:
        if not self._backup.directory:
            return
        await self._look()
        while True:
            while (wait_s := self._due.at_s - self._now().mono_s) > 0:
                await trio.sleep(min(wait_s, LOOK_S))
            began_s, self._is_running = self._now().mono_s, True
            try:
                found = await self._make()
            finally:
                self._is_running = False
            if isinstance(found, SnapshotDone):
                self._has_made(found, began_s)
            else:
                self._has_failed(found.problem)

    async def _look(self) -> None:
        """Find the newest snapshot of an earlier run; one that was made before a key changed, as by a rotation, is
        followed by another at once. A directory that cannot be listed is told by the next attempt."""
        directory, keys = Path(self._backup.directory), self._home / "keys"

        def listed() -> tuple[int, tuple[str, int, int] | None, float]:
            found = snapshots.look(directory, self._router, former_keys(keys))
            made = of_home(found, snapshots.home_tag(self._home))
            newest = made[-1] if made else None
            size = (directory / newest.name).stat().st_size if newest else 0
            changed_s = max((one.stat().st_mtime for one in keys.glob("*.key")), default=0.0)
            return len(made), (newest.name, newest.at_s, size) if newest else None, changed_s

        try:
            with trio.fail_after(LOOK_S):
                self._kept, self._newest, changed_s = await trio.to_thread.run_sync(listed, abandon_on_cancel=True)
        except (OSError, trio.TooSlowError):
            return
        if self._newest is not None:
            now, at_s = self._now(), self._newest[1]
            wall_s = now.wall_ns / SECOND_NS
            self._due = SnapshotTimer(self._backup.every_s, now.mono_s, wall_s - at_s)
            if at_s < changed_s <= wall_s:
                self._due.hurry(now.mono_s)

    async def _make(self) -> SnapshotDone | SnapshotFailed:
        settings = self._backup
        limit_s = max(MAKING_S_MIN, settings.every_s)
        arguments = str(self._home), self._router.hex(), settings.directory, str(settings.keep)
        command = program("router.node.snapshot_process", *arguments, self._backup.passphrase_file)
        try:
            process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment()
            )
        except OSError as error:
            return SnapshotFailed(f"its process cannot be started: {error.strerror}")
        printed = b""
        try:
            with trio.move_on_after(limit_s) as limit:
                assert process.stdout is not None
                while (part := await process.stdout.receive_some()) and len(printed) < ANSWER_BYTES_MAX:
                    printed += part
                await process.wait()
        finally:
            await end_process(process)
        if limit.cancelled_caught:
            return SnapshotFailed(f"it took longer than {limit_s:,.0f} s; see what holds up that disk")
        try:
            return json.decode(printed, type=SnapshotDone | SnapshotFailed)
        except (DecodeError, ValidationError):
            code = process.returncode
            return SnapshotFailed(f"its process ended with exit code {code} before it was done")

    def _has_made(self, done: SnapshotDone, began_s: float) -> None:
        if self._problem:
            log.warning("a snapshot was made again: %s in %s", done.name, self._backup.directory)
        for path in done.damaged:
            log.warning("the snapshot %s holds %s as it was found: it is damaged; see to its disk", done.name, path)
        self._newest = done.name, done.at_s, done.bytes
        self._kept, self._held_s, self._damaged, self._problem = done.kept, done.held_s, done.damaged, ""
        self._counts["made"] += 1
        self._due.made(began_s)

    def _has_failed(self, problem: str) -> None:
        text = printable(problem)
        if text != self._problem:
            said = "no snapshot was made in %s: %s; older ones are kept, and it is tried again"
            log.warning(said, printable(self._backup.directory), text)
        self._problem, self._problem_s = text, self._now().mono_s
        self._counts["failed"] += 1
        self._due.failed(self._problem_s)
