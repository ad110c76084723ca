"""Take a snapshot of a home, also while its node runs.

The order of the copies:

1. The store's file, while commits go on: a draft, of which each part is of another moment.
2. While no commit of the store can happen: what has changed in the store's file since then, and with it the tail of
   the log; then the states of services, then the sealed segments of the log. Neither "store first" nor "states first"
   would do without that pause. With the store first, a service could hand over a message, hear that it is taken, and
   forget it, before its state is copied: it would be in neither copy. With the states first, a service could take a
   message and settle it, and the store forget it, before the store is copied. During the pause the router settles
   nothing and confirms nothing, because it does either only after a commit. So what a service was told before is in
   the store's copy, and what it has not been told yet it keeps in its own. What is in both, settled by the service and
   not yet by the store, is delivered again. The store deletes events from its tail only after their segment has its
   name: an event is in a segment that is copied or in the store's copy, or in both, which the next start notices. A
   segment that is pruned meanwhile has its footer in `pruned.jsonl` first, so that file is copied after the segments.
3. Afterwards, with commits going on: configuration, keys, group links and invitations. They come last, so that no
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
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import lmdb
from msgspec import Struct, field

from router.disk import private_file
from router.disk.log.eventlog import NAME, PRUNED
from router.disk.log.packed import packed_path
from router.disk.room import DATA, lack_of_room
from router.disk.snapshot.form import Manifest, SnapshotFault, SnapshotWriter
from router.disk.state.secrets import KEY_FILE, NEXT_FILE
from router.disk.store.file import UNREADABLE, compact, owner
from router.disk.store.rest import REST_S_MAX, Disturbed, at_rest
from router.disk.store.terms import StoreError

STAGE = ".snapshot"
LOCK = "lock.mdb"
SMALL = ("router.toml", "keys", "groups", "invitations")
NODE_KEY = ("node.key", "node.rotating", "node.successions")
"""The files in `keys` that belong to the store's owner (`router.settings.node_rotation`)."""
ATTEMPTS_MAX = 5
"""How often a state is copied again because its secrets were sealed under another key meanwhile."""
THREADS_MAX = 2
COPY_BYTES, COMPARED_BYTES, PIPE_BYTES = 1 << 24, 1 << 18, 1 << 20
_CLONE = 0x40049409  # FICLONE: the copy shares the file's blocks, where the file system can do that


class Staged(Struct):
    """The copies of one moment, in `folder`. `held_s`: how long the store's commits waited for them; `key_digest`: that
    of the files of the node's key then."""

    folder: Path
    at_s: int
    router: bytes = b""
    held_s: float = 0.0
    key_digest: bytes = b""
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
        found.router = _owner(found)
        yield found
    finally:
        _empty(folder)
        with suppress(OSError):
            folder.rmdir()
        os.close(descriptor)


def size_at_most(home: Path, copies: Staged) -> int:
    """Return how many bytes `write` takes at the most; fewer where the store has free pages."""
    places = (*(home / name for name in SMALL), *(copies.folder / name for name in ("services", "log", "store")))
    found = 0
    for file in (file for place in places for file in _files(place)):
        with suppress(FileNotFoundError):  # removed since it was listed
            found += file.stat().st_size
    return found


def write(home: Path, copies: Staged, writer: SnapshotWriter) -> Manifest:
    """Write the whole snapshot. Raise `SnapshotFault` if the node got another key meanwhile: its store would belong to
    the former one."""
    for root, names in ((home, SMALL), (copies.folder, ("services", "log"))):
        for file in (file for name in names for file in _files(root / name)):
            with suppress(FileNotFoundError), file.open("rb") as content:  # removed since it was listed
                writer.part(str(file.relative_to(root)), content)
    if _key_digest(home) != copies.key_digest:
        raise SnapshotFault(f"the node of {home} got another key while its snapshot was taken: take it again")
    _write_store(copies, writer)
    return writer.finish(copies.at_s, copies.router, copies.damaged)


def _key_digest(home: Path) -> bytes:
    """Return the SHA-256 of the files that a rotation of the node's key changes."""
    found = sha256()
    for name in NODE_KEY:
        with suppress(FileNotFoundError):
            found.update(name.encode() + (home / "keys" / name).read_bytes())
    return found.digest()


def _copy_moment(home: Path, found: Staged) -> None:
    data = home / "store" / DATA
    if not data.exists():
        found.key_digest = _key_digest(home)
        _copy_states(home, found)
        return
    (found.folder / "store").mkdir(mode=0o700)
    try:
        with (
            data.open("rb") as file,
            open(found.folder / "store" / DATA, "x+b", buffering=0, opener=_private) as copy,
            ThreadPoolExecutor(THREADS_MAX) as threads,
        ):
            if not (shares := _share(file.fileno(), copy.fileno())):
                _copy(file.fileno(), copy.fileno())
            with at_rest(data) as descriptor:
                began_s = time.monotonic()
                found.key_digest = _key_digest(home)
                if not (shares and _share(descriptor, copy.fileno())):
                    renew(descriptor, copy.fileno(), threads)
                _copy_states(home, found)
                _link_log(home / "log", found.folder / "log")
                found.at_s, found.held_s = int(time.time()), time.monotonic() - began_s
    except Disturbed:
        said = f"its node went on, because the copies took longer than {REST_S_MAX:g} s"
        raise SnapshotFault(f"{said}; try again while the disk does less, or stop the node first") from None


def _share(source: int, copy: int) -> bool:
    """Let the copy share the blocks of the source, if the file system can; return whether it does."""
    try:
        fcntl.ioctl(copy, _CLONE, source)
    except OSError:
        return False
    return True


def _copy(source: int, copy: int) -> None:
    """Copy the source as it is just now, while it may be written; `renew` mends that."""
    at = 0
    while done := os.sendfile(copy, source, at, COPY_BYTES):
        at += done


def renew(source: int, copy: int, threads: ThreadPoolExecutor) -> None:
    """Make an older copy of a file equal to it. Both are read, and only what differs is written: that takes half as
    long as a copy, and never waits for the disk."""
    size = os.fstat(source).st_size
    if os.fstat(copy).st_size != size:
        os.ftruncate(copy, size)
    part = -(-size // THREADS_MAX // COMPARED_BYTES) * COMPARED_BYTES
    parts = [threads.submit(_renew, source, copy, at, min(size, at + part)) for at in range(0, size, part or 1)]
    for one in parts:
        one.result()


def _renew(source: int, copy: int, start: int, stop: int) -> None:
    ours, theirs = bytearray(COMPARED_BYTES), bytearray(COMPARED_BYTES)
    for at in range(start, stop, COMPARED_BYTES):
        count = os.preadv(source, [ours], at)
        if os.preadv(copy, [theirs], at) != count or ours != theirs:
            os.pwrite(copy, memoryview(ours)[:count], at)
            theirs[:] = ours


def _link_log(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if NAME.fullmatch(path.name) and not path.is_dir():
            _ = _link(path, target) or _link(packed_path(path), target)  # it may be compressed just now
    with suppress(FileNotFoundError):
        shutil.copyfile(source / PRUNED, target / PRUNED)


def _link(path: Path, folder: Path) -> bool:
    """Link or copy a segment into the folder; return False if it is gone. Then it was pruned, and its footer is among
    the pruned ones, or it was compressed."""
    copy = folder / path.name
    try:
        if not copy.exists():
            os.link(path, copy)
    except FileNotFoundError:
        return False
    except OSError:
        with suppress(FileNotFoundError):
            shutil.copyfile(path, copy)
        return copy.exists()
    return True


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


def _owner(found: Staged) -> bytes:
    try:
        return owner(found.folder / "store") or b""
    except StoreError:
        return b""


def _write_store(found: Staged, writer: SnapshotWriter) -> None:
    """Write the store's copy without its free pages; one that is damaged is written as it is, and is named."""
    folder = found.folder / "store"
    if not folder.exists():
        return
    with _compacted(folder) as (content, is_whole):
        writer.part(f"store/{DATA}", content, is_whole)
    if not is_whole():
        found.damaged.append(f"store/{DATA}")
        with (folder / DATA).open("rb") as content:
            writer.part(f"store/{DATA}", content)


@contextmanager
def _compacted(folder: Path) -> Iterator[tuple[BinaryIO, Callable[[], bool]]]:
    """Give a pipe from which the store in that folder is read without its free pages, and what tells at its end whether
    it came whole."""
    reads, writes = os.pipe()
    with suppress(OSError):  # the system may allow less; then it takes more turns
        fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    errors = list[Exception]()

    def fill() -> None:
        try:
            compact(folder, writes)
        except (lmdb.Error, StoreError, ValueError, OSError, *UNREADABLE) as error:
            errors.append(error)
        finally:
            os.close(writes)

    def is_whole() -> bool:
        thread.join()
        return not errors

    thread = threading.Thread(target=fill, name="compact the store", daemon=True)
    thread.start()
    with os.fdopen(reads, "rb") as content:
        yield content, is_whole


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
