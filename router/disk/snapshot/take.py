"""Take a snapshot of a home, also while its node runs.

Store, states of services and log have to be of one moment. Neither "store first" nor "states first" would do. With the
store first, a service could hand over a message, hear that it is taken, and forget it, before its state is read: it
would be in neither. With the states first, a service could take a message and settle it, and the store forget it,
before the store is read. So commits of the store wait for some milliseconds, in which a read transaction of each
database is begun and the sealed segments of the log are linked. In that time the router settles nothing and confirms
nothing, because it does either only after a commit: what a service was told before is in the store, and what it has not
been told yet it keeps in its own state. What is in both, settled by the service and not yet by the store, is delivered
again.

Afterwards commits go on, and the databases are read as they were, which LMDB sees to (`held.py`). The store is written
first, straight from its pages, so that it is held only briefly; states are copied into a hidden folder of the home, and
the rest of the store as well if it is not read in time. What a killed command has left there goes with the next one.

The store deletes events from its tail only after their segment has its name: an event is in a segment that is linked or
in the store, or in both, which the next start notices. A segment that is pruned meanwhile has its footer in
`pruned.jsonl` first, so that file is copied after the segments are linked.

Configuration, keys, group links and invitations come last, so that no group or key which the store refers to is
missing. One that is newer than the store harms nothing. Not in a snapshot: `apps/`, whose apps are other processes,
each with a moment of its own; they hold what they have not handed over, and go on with the state that they have.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path

import cbor2
import lmdb
from msgspec import Struct, field

from router.disk import private_file
from router.disk.log.eventlog import NAME, PRUNED
from router.disk.log.packed import packed_path, plain_path
from router.disk.removal import remove_file, remove_tree
from router.disk.room import DATA, LOCK, lack_of_room
from router.disk.snapshot.form import SnapshotWriter
from router.disk.snapshot.held import STOPPED_S_MAX, HeldDatabase, HeldStream
from router.disk.snapshot.hold_limit import HoldLimit
from router.disk.snapshot.steady_writer import SteadyWriter
from router.disk.snapshot.terms import Manifest, SnapshotFault
from router.disk.state.secrets import KEY_FILE, NEXT_FILE
from router.disk.store.file import UNREADABLE
from router.disk.store.rest import REST_S_MAX, Disturbed, at_rest

STAGE, SPILL = ".snapshot", "rest"
SMALL = ("router.toml", "keys", "groups", "invitations")
STORE_KEYS = ("node.*", "service-*.*", "*.renewing", "*.renewed")
"""The files in `keys` that fit one store: of its owner (`router.settings.node_rotation`), of its services, and of the
renewals of apps' keys, whose queues and groups in it are one key's (`router.settings.renewed_keys`)."""
ATTEMPTS_MAX = 5
"""How often a state is read anew because its secrets were sealed under another key meanwhile."""


class Staged(Struct):
    """One moment of a home: its store is held, the rest is in `folder`. `held_s`: how long the store's commits waited
    for that; `key_digest`: that of the files of these keys then."""

    folder: Path
    at_s: int
    router: bytes = b""
    held_s: float = 0.0
    key_digest: bytes = b""
    store: HeldDatabase | None = None
    damaged: list[str] = field(default_factory=list)


@contextmanager
def staged(home: Path) -> Iterator[Staged]:
    """Hold store, states and log of one moment; what was copied is removed after the block. Raise `SnapshotFault`."""
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
        with ExitStack() as stack:
            _Moment(home, found, stack).hold()
            found.router = _owner(found.store)
            yield found
    finally:
        _empty(folder)
        with suppress(OSError):
            folder.rmdir()
        os.close(descriptor)


def size_at_most(home: Path, copies: Staged) -> int:
    """Return how many bytes `write` takes at the most; fewer where the store has free pages."""
    places = (*(home / name for name in SMALL), *(copies.folder / name for name in ("services", "log", "store")))
    found = copies.store.size if copies.store else 0
    for file in (file for place in places for file in _files(place)):
        with suppress(FileNotFoundError):  # removed since it was listed
            found += file.stat().st_size
    return found


def write(home: Path, copies: Staged, writer: SnapshotWriter) -> Manifest:
    """Write the whole snapshot, and let go of its moment as soon as that is read. Raise `SnapshotFault` if another
    key followed the node's, a service's or an app's meanwhile: what is in the store would belong to the former one."""
    if copies.store is not None:
        _write_store(copies, copies.store, writer)
    for root, names in ((copies.folder, ("store", "services", "log")), (home, SMALL)):
        for file in (file for name in names for file in _files(root / name)):
            with suppress(FileNotFoundError), file.open("rb", buffering=0) as content:  # removed since it was listed
                writer.part(str(file.relative_to(root)), content)
    if _key_digest(home) != copies.key_digest:
        said = f"another key followed one of {home} during its snapshot, whose store is of the former"
        raise SnapshotFault(f"{said}: take it again")
    return writer.finish(copies.at_s, copies.router, copies.damaged)


def _key_digest(home: Path) -> bytes:
    """Return the SHA-256 of the files that a rotation or renewal of a key changes."""
    found = sha256()
    for path in sorted({path for pattern in STORE_KEYS for path in (home / "keys").glob(pattern)}):
        with suppress(FileNotFoundError):
            found.update(path.name.encode() + path.read_bytes())
    return found.digest()


def _write_store(found: Staged, store: HeldDatabase, writer: SnapshotWriter) -> None:
    """Write the store without its free pages; one that is damaged is written as it is, and is named."""
    with closing(HeldStream(store, found.folder / SPILL)) as content:
        writer.part(f"store/{DATA}", content, content.is_whole)
    if not content.is_whole():
        _copy_damaged(found, store, found.folder / "store")
    store.let_go()


def _copy_damaged(found: Staged, database: HeldDatabase, target: Path) -> None:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(target / DATA, "wb", opener=_private) as copy:
        database.copy_raw(copy)
    found.damaged.append(str((target / DATA).relative_to(found.folder)))


class _Moment:
    """What is held, and linked, while no commit of the store is made."""

    def __init__(self, home: Path, found: Staged, stack: ExitStack) -> None:
        self._home, self._found, self._stack = home, found, stack
        self._limit = stack.enter_context(closing(HoldLimit(STOPPED_S_MAX)))
        self._states = dict[Path, HeldDatabase | None]()
        self._beside = dict[Path, dict[str, bytes]]()

    def hold(self) -> None:
        """Hold the moment, and copy the states as they were. Raise `SnapshotFault`."""
        data, found = self._home / "store" / DATA, self._found
        is_there = data.exists()
        store = self._opened(data.parent) if is_there else None
        self._open_states()
        _link_log(self._home / "log", found.folder / "log")  # most of them, so that the rest takes no time
        try:
            with at_rest(data) if is_there else nullcontext():
                began_s = time.monotonic()
                found.key_digest = _key_digest(self._home)
                if store is not None:
                    store.hold()
                elif is_there:
                    self._copy_unread(data)
                self._hold_states()
                _link_log(self._home / "log", found.folder / "log")
                found.at_s, found.held_s = int(time.time()), time.monotonic() - began_s if is_there else 0.0
        except Disturbed:
            said = f"its node went on, because that took longer than {REST_S_MAX:g} s"
            raise SnapshotFault(f"{said}; try again while the disk does less, or stop the node first") from None
        found.store = store
        with suppress(FileNotFoundError):
            shutil.copyfile(self._home / "log" / PRUNED, found.folder / "log" / PRUNED)
        for folder, database in self._states.items():
            self._copy_state(folder, database)

    def _opened(self, folder: Path) -> HeldDatabase | None:
        """Open a database; return None if it is too damaged for that."""
        try:
            return self._stack.enter_context(closing(HeldDatabase(folder, self._limit)))
        except lmdb.Error as error:
            _check_room(folder, error)
            return None

    def _open_states(self) -> None:
        for file in _files(self._home / "services"):
            if file.name == DATA and file.parent not in self._states:
                self._states[file.parent] = self._opened(file.parent)

    def _hold_states(self) -> None:
        self._open_states()  # those that are new
        for folder, database in self._states.items():
            self._hold_state(folder, database)
        for file in _files(self._home / "services"):
            if file.name not in (DATA, LOCK) and file.parent not in self._states:
                self._copy_unread(file, is_damaged=False)

    def _hold_state(self, folder: Path, database: HeldDatabase | None) -> None:
        """Hold a state and read the files beside it, of one moment."""
        if database is None:
            self._copy_unread(folder / DATA)
        for _ in range(ATTEMPTS_MAX):
            before = _files_beside(folder)
            if database is not None:
                database.hold()
            if _files_beside(folder) == before:
                self._beside[folder] = before
                return
            if database is not None:
                database.let_go()
        raise SnapshotFault(f"the secrets of {folder} were renewed again and again while it was read; try again")

    def _copy_state(self, folder: Path, database: HeldDatabase | None) -> None:
        target = self._found.folder / folder.relative_to(self._home)
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in self._beside[folder].items():
            (target / name).write_bytes(content)
        if database is None:
            return
        with (
            closing(HeldStream(database, self._found.folder / SPILL)) as stream,
            open(target / DATA, "wb", opener=_private) as file,
            closing(SteadyWriter(file)) as steady,
        ):
            while data := stream.read():
                steady.write(data)
            steady.finish()
        if not stream.is_whole():
            _copy_damaged(self._found, database, target)
        database.let_go()

    def _copy_unread(self, file: Path, *, is_damaged: bool = True) -> None:
        """Copy a file as it is."""
        target = self._found.folder / file.relative_to(self._home)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        if is_damaged:
            self._found.damaged.append(str(file.relative_to(self._home)))


def _link_log(source: Path, target: Path) -> None:
    """Link the sealed segments that are not linked yet."""
    target.mkdir(mode=0o700, exist_ok=True)
    linked = {plain_path(path).name for path in target.iterdir()}
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if NAME.fullmatch(path.name) and plain_path(path).name not in linked and not path.is_dir():
            _ = _link(path, target) or _link(packed_path(path), target)  # it may be compressed just now


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


def _files_beside(folder: Path) -> dict[str, bytes]:
    found = dict[str, bytes]()
    for path in folder.iterdir():
        if path.is_file() and path.name not in (DATA, LOCK):
            with suppress(FileNotFoundError):
                found[path.name] = path.read_bytes()
    return found


def _owner(store: HeldDatabase | None) -> bytes:
    """Return the key of the store's router; nothing if there is none, or if it cannot be read."""
    try:
        said = store.row("meta", b"store") if store is not None else None
        return bytes(cbor2.loads(said)[1]) if said else b""
    except (lmdb.Error, ValueError, LookupError, TypeError, *UNREADABLE):
        return b""


def _check_room(folder: Path, error: Exception) -> None:
    """Raise `OSError` if the error is one of a full disk: then nothing is damaged."""
    if lack_of_room(folder, error):
        raise OSError(ENOSPC, os.strerror(ENOSPC), str(folder)) from None


def _files(path: Path) -> list[Path]:
    """Return the regular files there, in order; what has a hidden name, or lies in such a folder, is a draft. Raise
    `OSError` if a folder cannot be listed: the snapshot would lack what it holds."""
    found = [path] if path.is_file() else []
    for folder, folders, names in os.walk(path, onerror=_not_listed):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return sorted(one for one in found if one.is_file())


def _not_listed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):  # removed since, or a file
        raise error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, private_file.FILE_MODE)


def _empty(folder: Path) -> None:
    """Remove what is there; keys to secrets are overwritten first, so that no copy of them stays on the disk."""
    for key in (one for name in (KEY_FILE, NEXT_FILE) for one in folder.rglob(name)):
        private_file.overwrite(key)
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            remove_tree(one)
        else:
            remove_file(one)
