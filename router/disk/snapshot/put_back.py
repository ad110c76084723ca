"""Put a snapshot back as a new home: all of it or nothing. A home that is there is never overwritten."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

from router.disk import private_file
from router.disk.snapshot.form import Manifest, Reader, SnapshotFault

ROOTS = ("router.toml", "keys", "groups", "invitations", "services", "store", "log")


def check_free(home: Path) -> None:
    """Raise `SnapshotFault` if anything is at that path but an empty directory."""
    if os.path.lexists(home) and (not home.is_dir() or any(home.iterdir())):
        raise SnapshotFault(f"{home} is there already, and a home is never overwritten: choose another with --home DIR")


def restore(reader: Reader, home: Path) -> Manifest:
    """Make the home of the snapshot; return its manifest. Raise `SnapshotFault`, or `OSError` of a full disk: nothing
    is left then. What a killed command has left beside the home, `.NAME.restoring`, goes with the next attempt."""
    check_free(home)
    draft = home.with_name(f".{home.name}.restoring")
    private_file.make_directory(draft)
    with ExitStack() as stack:
        descriptor = os.open(draft, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SnapshotFault(f"another `router restore` is making {home}; wait until it has ended") from None
        try:
            _clear(draft)
            manifest = reader.read(lambda path: _part(draft, path))
            for folder in (one for one in (draft, *draft.rglob("*")) if one.is_dir()):
                private_file.sync_directory(folder)
            check_free(home)
            draft.rename(home)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    private_file.sync_directory(home.parent)
    return manifest


def _clear(draft: Path) -> None:
    for one in draft.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()


def _part(draft: Path, path: str) -> Callable[[bytes], Any]:
    pure = PurePosixPath(path)
    is_odd = pure.is_absolute() or str(pure) != path or "\0" in path or any(one.startswith(".") for one in pure.parts)
    if is_odd or not pure.parts or pure.parts[0] not in ROOTS:
        raise SnapshotFault(f"it holds a file that is no part of a home ({path!r}): it was altered")
    folder = draft
    try:
        for name in pure.parts[:-1]:
            folder /= name
            folder.mkdir(mode=private_file.DIRECTORY_MODE, exist_ok=True)
        descriptor = os.open(draft / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, private_file.FILE_MODE)
    except (FileExistsError, NotADirectoryError):
        raise SnapshotFault(f"it holds {path!r} twice: it was altered") from None
    file = os.fdopen(descriptor, "wb")

    def take(data: bytes) -> None:
        if data:
            file.write(data)
            return
        file.flush()
        os.fsync(file.fileno())
        file.close()

    return take
