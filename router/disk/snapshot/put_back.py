"""Put a snapshot back as a new home: all of it or nothing. A home that is there is never overwritten."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from router.core.log.life import Restored, next_life
from router.disk import life_file, private_file
from router.disk.removal import remove_file, remove_tree
from router.disk.room import FREE_BYTES_MIN, PAGE_BYTES
from router.disk.snapshot.form import RECORD_BYTES_MAX, SnapshotReader
from router.disk.snapshot.steady_writer import SteadyWriter
from router.disk.snapshot.terms import ALTERED, Content, Manifest, SnapshotFault
from router.disk.store.file import life_number

ROOTS = ("router.toml", "keys", "groups", "invitations", "services", "store", "log")
LOOK_BYTES = 8 << 20
"""After how many bytes it is looked again whether the disk has room, where the manifest is not known before."""
_MAKE_ROOM = "make room, or choose another place with --home DIR"


def check_free(home: Path) -> None:
    """Raise `SnapshotFault` if anything is at that path but an empty directory, or if it is another user's place."""
    if home.is_symlink():
        raise SnapshotFault(f"{home} is a symbolic link, and no home is made in its place: name where it leads to")
    if os.path.lexists(home) and (not home.is_dir() or any(home.iterdir())):
        raise SnapshotFault(f"{home} is there already, and a home is never overwritten: choose another with --home DIR")
    if why_not := private_file.why_not_by_root(home):
        raise SnapshotFault(f"{why_not}, or choose another place")


def check_room(folder: Path, said: Manifest) -> None:
    """Raise `SnapshotFault` if the disk of the folder has no room for what the manifest names."""
    needed = sum(-(-max(0, one.size) // PAGE_BYTES) * PAGE_BYTES for one in said.parts)
    free = shutil.disk_usage(folder).free - FREE_BYTES_MIN
    if needed > free:
        has = f"the disk of {folder.parent} has room for {max(0, free):,}"
        raise SnapshotFault(f"it takes {needed:,} bytes, and {has}: {_MAKE_ROOM}")


def restore(reader: SnapshotReader, home: Path, wall_ns: int, said: Manifest | None = None) -> Manifest:
    """Make the home of the snapshot, in which the node begins a new life at `wall_ns` (Unix nanoseconds); return its
    manifest. `said`: the same, looked up before; nothing is written then but what it names. The disk keeps
    some `FREE_BYTES_MIN` free. Raise `SnapshotFault`, or `OSError` of a full disk: nothing
    is left then. What a killed command has left beside the home, `.NAME.restoring`, goes with the next attempt."""
    check_free(home)
    draft = home.with_name(f".{home.name}.restoring")
    with ExitStack() as stack:
        descriptor = _opened(draft)
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SnapshotFault(f"another `router restore` is making {home}; wait until it has ended") from None
        try:
            _clear(draft)
            if said is not None:
                check_room(draft, said)
            with closing(_Files(draft, said)) as files:
                manifest = reader.read(files.begin)
            if said is not None and manifest != said:
                raise SnapshotFault(ALTERED)
            life_file.write(draft, _restored(draft / "store", manifest, wall_ns))
            for folder in (one for one in (draft, *draft.rglob("*")) if one.is_dir()):
                private_file.sync_directory(folder)
            check_free(home)
            draft.rename(home)
        except BaseException:
            remove_tree(draft, ignore_errors=True)
            raise
    private_file.sync_directory(home.parent)
    return manifest


def _opened(draft: Path) -> int:
    """Return a descriptor of the directory in which the home is made, which only this user may enter. Raise
    `SnapshotFault` if somebody else has put a directory or a link there: what it holds, or leads to, is removed before
    the home is made, and whoever owns it could change the home."""
    draft.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        draft.mkdir(mode=private_file.DIRECTORY_MODE)
    said = f"{draft}, in which the home is made, is no directory of this user: remove it, or choose another --home DIR"
    try:
        descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            raise SnapshotFault(said) from None
        raise
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise SnapshotFault(said)
    os.fchmod(descriptor, private_file.DIRECTORY_MODE)
    return descriptor


def _restored(store: Path, manifest: Manifest, wall_ns: int) -> Restored:
    life = next_life(life_number(store), wall_ns // 1_000_000)
    try:
        return Restored(life, manifest.at_s, wall_ns // 1_000_000_000)
    except ValueError:
        said = "the clock of this machine, or that of the snapshot, is beyond what can be kept (the year 2105)"
        raise SnapshotFault(f"{said}: set the clock right, or take another snapshot") from None


def _clear(draft: Path) -> None:
    for one in draft.iterdir():
        remove_tree(one) if one.is_dir() and not one.is_symlink() else remove_file(one)


class _Files:
    """The files of a home that is being made in `folder`, one after the other; only those that the manifest `said`
    names, and no longer ones, if it is known."""

    def __init__(self, folder: Path, said: Manifest | None) -> None:
        self._folder = folder
        self._most = None if said is None else _most(said)
        self._left, self._unlooked = 0, 0
        self._file: BinaryIO | None = None
        self._writer: SteadyWriter | None = None
        self._path = folder

    def begin(self, path: str) -> Callable[[Content | None], Any]:
        """Make the file; return what takes its bytes, of which none end it, and None removes it."""
        pure = PurePosixPath(path)
        is_odd = pure.is_absolute() or str(pure) != path or "\0" in path
        if is_odd or any(one.startswith(".") for one in pure.parts) or not pure.parts or pure.parts[0] not in ROOTS:
            raise SnapshotFault(f"it holds a file that is no part of a home ({path!r}): it was altered")
        if self._most is not None and path not in self._most:
            raise SnapshotFault(f"it holds {path!r}, which its manifest does not name: it was altered")
        self._left = self._most[path] if self._most is not None else 0
        folder = self._folder
        try:
            for name in pure.parts[:-1]:
                folder /= name
                folder.mkdir(mode=private_file.DIRECTORY_MODE, exist_ok=True)
            self._path = folder / pure.name
            self._file = os.fdopen(_made(self._path), "wb")
            self._writer = SteadyWriter(self._file)
        except (FileExistsError, NotADirectoryError):
            raise SnapshotFault(f"it holds {path!r} twice: it was altered") from None
        return self._take

    def _take(self, data: Content | None) -> None:
        assert self._writer
        if data:
            self._check(len(data))
            self._writer.write(data)
            return
        if data is not None:
            self._writer.finish()
        self.close()
        if data is None:
            remove_file(self._path)

    def _check(self, size: int) -> None:
        """Raise `SnapshotFault` if the manifest names fewer bytes, or the disk would be full for everybody."""
        self._left, self._unlooked = self._left - size, self._unlooked + size
        if self._most is not None:
            if self._left < 0:
                name = str(self._path.relative_to(self._folder))
                raise SnapshotFault(f"it holds more of {name!r} than its manifest says: it was altered")
        elif self._unlooked >= LOOK_BYTES:
            self._unlooked = 0
            if shutil.disk_usage(self._folder).free < FREE_BYTES_MIN:
                said = f"the disk of {self._folder.parent} is full but for {FREE_BYTES_MIN >> 20} MiB"
                raise SnapshotFault(f"{said}: {_MAKE_ROOM}")

    def close(self) -> None:
        """Close the last file, also one that is not whole."""
        if self._file and self._writer:
            self._writer.close()
            with suppress(OSError):  # what was not written is removed anyway
                self._file.close()


def _most(said: Manifest) -> dict[str, int]:
    """Return how many bytes each file may have. A damaged database comes twice: what could be read of it, up to a
    record more than the file as it was found, does not count, and is removed first."""
    spare = dict.fromkeys(said.damaged, RECORD_BYTES_MAX)
    return {one.path: one.size + spare.get(one.path, 0) for one in said.parts}


def _made(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private_file.FILE_MODE)
