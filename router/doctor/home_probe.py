"""Gather facts about the disk of a home and the limits of a process, each within a bounded time."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import trio

from router.client.options import APPS
from router.client.sealing.rows import OWN_PREKEYS
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError
from router.disk.store.terms import StoreError
from router.doctor.finding import Descriptors, DiskFacts
from router.settings.home import Home

DISK_S = 5.0
SYNCS_S = 1.0
SYNCS_MAX = 16
SYNC_BYTES = 4096
APPS_MAX = 100
"""The most apps whose state is opened."""
UNLIMITED = 1 << 30
_sync = getattr(os, "fdatasync", os.fsync)


async def probe_disk(home: Home) -> DiskFacts:
    """Return the facts about the disk of a home; give up a disk that hangs after `DISK_S`."""
    place = home.store_path if home.store_path.is_dir() else home.path
    with trio.move_on_after(DISK_S):
        return await trio.to_thread.run_sync(_disk, home, place, abandon_on_cancel=True)
    return DiskFacts(str(home.path), timed_out=True)


def _disk(home: Home, place: Path) -> DiskFacts:
    fault, syncs = "", list[float]()
    try:
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:  # without a name, where the system can
            began = monotonic()
            while len(syncs) < SYNCS_MAX and monotonic() - began < SYNCS_S:
                at = monotonic()
                file.write(bytes(SYNC_BYTES))
                _sync(file.fileno())
                syncs.append(monotonic() - at)
    except OSError as error:
        fault = error.strerror or str(error)
    sizes = {path: size for path, size, _ in (*_files(home.store_path), *_files(home.log_path))}
    return DiskFacts(
        str(place),
        _filesystem(place),
        shutil.disk_usage(place).free,
        fault,
        tuple(syncs),
        store_bytes=sum(size for path, size in sizes.items() if path.parent == home.store_path),
        log_bytes=sum(size for path, size in sizes.items() if path.parent == home.log_path),
        newest_s=max((newest for _, _, newest in _files(home.path)), default=0.0),
    )


async def probe_format(home: Home) -> str:
    """Return why this program may change nothing in the home, "" if it may; also of a disk that hangs, which is told of
    anyway."""
    with trio.move_on_after(DISK_S):
        return await trio.to_thread.run_sync(_format_fault, home, abandon_on_cancel=True)
    return ""


def _format_fault(home: Home) -> str:
    try:
        home.check_format()
    except StoreError as error:
        return str(error)
    return ""


async def probe_apps(home: Home) -> list[str]:
    """Return a sentence on each app's state that cannot be used; none of a disk that hangs, which is told of anyway."""
    with trio.move_on_after(DISK_S):
        return await trio.to_thread.run_sync(_unusable_states, home, abandon_on_cancel=True)
    return []


def _unusable_states(home: Home) -> list[str]:
    said = []
    for path in sorted((home.path / APPS).glob("*.state"))[:APPS_MAX]:
        state = AppState(path)
        try:
            with closing(state):
                state.rows(OWN_PREKEYS)
        except StateError as error:
            said.append(str(error))
    return said


def _files(directory: Path) -> Iterator[tuple[Path, int, float]]:
    """Yield path, size and modification time of each file of a directory; skip those that cannot be examined."""
    try:
        with os.scandir(directory) as found:
            for one in found:
                if one.is_file(follow_symlinks=False):
                    state = one.stat(follow_symlinks=False)
                    yield Path(one.path), state.st_size, state.st_mtime
    except OSError:
        return


def _filesystem(place: Path) -> str:
    """Return the kind of the file system that holds a directory; "" if the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
        device = place.stat().st_dev
    except OSError:
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    kinds = [line.partition(" - ")[2].split(" ")[0] for line in lines if line.split(" ")[2:3] == [wanted]]
    return kinds[-1] if kinds else ""


def probe_descriptors(running: Mapping[str, Any] | None) -> Descriptors:
    """Return how many file descriptors the node may open and has open, by its status; if no node runs, only the limit
    of this process."""
    if running is not None and (found := running.get("descriptors")):
        return Descriptors(found["most"] or UNLIMITED, found["open"] or None)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Descriptors(UNLIMITED if hard == resource.RLIM_INFINITY else hard)
