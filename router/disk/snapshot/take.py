"""Take a snapshot of a home, also while its node runs.

The order of the copies:

1. While no commit of the store can happen: the store's file, with the tail of the log in it, then the states of
   services, then the sealed segments of the log. Neither "store first" nor "states first" would do without that
   pause. With the store first, a service could hand over a message, hear that it is taken, and forget it, before its
   state is copied: it would be in neither copy. With the states first, a service could take a message and settle it,
   and the store forget it, before the store is copied. During the pause the router settles nothing and confirms
   nothing, because it does either only after a commit. So what a service was told before is in the store's copy, and
   what it has not been told yet it keeps in its own. What is in both, settled by the service and not yet by the
   store, is delivered again. The store deletes events from its tail only after their segment has its name: an event
   is in a segment that is copied or in the store's copy, or in both, which the next start notices. A segment that is
   pruned meanwhile has its footer in `pruned.jsonl` first, so that file is copied after the segments.
2. Afterwards, with commits going on: configuration, keys, group links and invitations. They come last, so that no
   group or key which the store's copy refers to is missing. One that is newer than the store harms nothing.

Not in a snapshot: `apps/`, whose apps are other processes, each with a moment of its own; they hold what they have not
handed over, and go on with the state that they have.

The copies lie in a hidden folder of the home until the snapshot is written, so the disk needs room for them; where the
file system can share blocks, they cost none. What a killed command has left of them goes with the next snapshot.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path

import lmdb
from msgspec import Struct, field

from router.disk import private_file
from router.disk.log.eventlog import NAME, PRUNED
from router.disk.room import DATA, lack_of_room
from router.disk.snapshot.form import Manifest, SnapshotFault, SnapshotWriter
from router.disk.state.secrets import KEY_FILE, NEXT_FILE
from router.disk.store.file import UNREADABLE, compact, owner
from router.disk.store.rest import REST_S_MAX, Disturbed, at_rest
from router.disk.store.terms import StoreError

STAGE = ".snapshot"
LOCK = "lock.mdb"
SMALL = ("router.toml", "keys", "groups", "invitations")
ATTEMPTS_MAX = 5
"""How often a state is copied again because its secrets were sealed under another key meanwhile."""
_CLONE = 0x40049409  # FICLONE: the copy shares the file's blocks, where the file system can do that


class Staged(Struct):
    """The copies of one moment, in `folder`. `held_s`: how long the store's commits waited for them."""

    folder: Path
    at_s: int
    router: bytes = b""
    held_s: float = 0.0
    damaged: list[str] = field(default_factory=list)


@contextmanager
def staged(home: Path) -> Iterator[Staged]:
    """Copy store, states and log of one moment; the copies are removed after the block. Raise `SnapshotFault`."""
    folder = home / STAGE
    private_file.make_directory(folder)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SnapshotFault(f"another snapshot of {home} is being taken; wait until it has ended") from None
        _empty(folder)
        found = Staged(folder, int(time.time()))
        _copy_moment(home, found)
        _compact_store(found)
        yield found
    finally:
        _empty(folder)
        with suppress(OSError):
            folder.rmdir()
        os.close(descriptor)


def write(home: Path, copies: Staged, writer: SnapshotWriter) -> Manifest:
    """Write the whole snapshot."""
    for root, names in ((home, SMALL), (copies.folder, ("services", "log", "store"))):
        for file in (file for name in names for file in _files(root / name)):
            with suppress(FileNotFoundError), file.open("rb") as content:  # removed since it was listed
                writer.part(str(file.relative_to(root)), content)
    return writer.finish(copies.at_s, copies.router, copies.damaged)


def _copy_moment(home: Path, found: Staged) -> None:
    data = home / "store" / DATA
    if not data.exists():
        _copy_states(home, found)
        return
    (found.folder / "store").mkdir(mode=0o700)
    try:
        with at_rest(data) as descriptor:
            began_s = time.monotonic()
            _clone(descriptor, found.folder / "store" / DATA)
            _copy_states(home, found)
            _link_log(home / "log", found.folder / "log")
            found.at_s, found.held_s = int(time.time()), time.monotonic() - began_s
    except Disturbed:
        said = f"its node went on, because the copies took longer than {REST_S_MAX:g} s"
        raise SnapshotFault(f"{said}; try again while the disk does less, or stop the node first") from None


def _clone(source: int, target: Path) -> None:
    """Copy a file by sharing its blocks, else by the kernel, holes left out where it can."""
    with open(target, "xb", opener=_private) as copy:
        try:
            fcntl.ioctl(copy.fileno(), _CLONE, source)
        except OSError:
            with os.fdopen(os.dup(source), "rb") as original:
                shutil.copyfileobj(original, copy, 1 << 20)


def _link_log(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if NAME.fullmatch(path.name) and path.is_file():
            with suppress(FileNotFoundError):  # pruned just now: its footer is among the pruned ones
                try:
                    os.link(path, target / path.name)
                except OSError:
                    shutil.copyfile(path, target / path.name)
    with suppress(FileNotFoundError):
        shutil.copyfile(source / PRUNED, target / PRUNED)


def _copy_states(home: Path, found: Staged) -> None:
    for file in _files(home / "services"):
        target = found.folder / file.relative_to(home)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.name == DATA:
            _copy_state(file.parent, target.parent, found)
        elif file.name != LOCK and not (file.parent / DATA).exists():
            shutil.copyfile(file, target)


def _copy_state(source: Path, target: Path, found: Staged) -> None:
    """Copy a state and the files beside it, of one moment."""
    for _ in range(ATTEMPTS_MAX):
        before = _beside(source)
        with open(target / DATA, "wb", opener=_private) as copy:
            try:
                with lmdb.open(str(source), readonly=True) as environment:
                    environment.copyfd(copy.fileno(), compact=True)
            except lmdb.Error as error:
                _check_room(target, error)
                copy.seek(0)
                copy.truncate()
                with (source / DATA).open("rb") as original:
                    shutil.copyfileobj(original, copy, 1 << 20)
                found.damaged.append(str((source / DATA).relative_to(found.folder.parent)))
        if _beside(source) == before:
            for name, content in before.items():
                (target / name).write_bytes(content)
            return
    raise SnapshotFault(f"the secrets of {source} were renewed again and again while it was copied; try again")


def _beside(folder: Path) -> dict[str, bytes]:
    found = dict[str, bytes]()
    for path in folder.iterdir():
        if path.is_file() and path.name not in (DATA, LOCK):
            with suppress(FileNotFoundError):
                found[path.name] = path.read_bytes()
    return found


def _compact_store(found: Staged) -> None:
    """Leave the free pages out of the store's copy; one that is damaged stays as it is, and is named."""
    folder = found.folder / "store"
    if not folder.exists():
        return
    smaller = found.folder / "store.compact"
    try:
        with open(smaller, "xb", opener=_private) as copy:
            compact(folder, copy.fileno())
        smaller.replace(folder / DATA)
        found.router = owner(folder) or b""
    except (lmdb.Error, StoreError, ValueError, *UNREADABLE) as error:
        _check_room(folder, error)
        smaller.unlink(missing_ok=True)
        found.damaged.append(f"store/{DATA}")


def _check_room(folder: Path, error: Exception) -> None:
    """Raise `OSError` if the error is one of a full disk: then nothing is damaged."""
    if lack_of_room(folder, error):
        raise OSError(ENOSPC, os.strerror(ENOSPC), str(folder)) from None


def _files(path: Path) -> list[Path]:
    """Return the regular files there, in order; what has a hidden name, or lies in such a folder, is a draft."""
    if path.is_file():
        return [path]
    found = path.rglob("*") if path.is_dir() else ()
    return sorted(one for one in found if one.is_file() and not _is_hidden(one.relative_to(path)))


def _is_hidden(path: Path) -> bool:
    return any(name.startswith(".") for name in path.parts)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, private_file.FILE_MODE)


def _empty(folder: Path) -> None:
    """Remove what is there; keys to secrets are overwritten first, so that no copy of them stays on the disk."""
    for key in (one for name in (KEY_FILE, NEXT_FILE) for one in folder.rglob(name)):
        private_file.overwrite(key)
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink()
