"""The LMDB environment of one state: opened once in a process, grown as it fills, its errors worded for people."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from errno import EACCES, EPERM, EROFS
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import lmdb
from msgspec import Struct

from router.core.wire.errors import RouterError
from router.disk import private_file
from router.disk.room import DATA, allot_lock_file, check_data_file, lack_of_room

MAP_BYTES_MIN = 16 << 20
GROWTHS_MAX = 20
VERSION_ROW = b"version"

T = TypeVar("T")


class StateError(RouterError):
    """The state of a service or an app cannot be read or written; the text says why and what to do."""


class StateForm(Struct, frozen=True):
    """The form of a state: its tables, of which `meta` holds `version`. `anew`: how to begin without what it holds;
    `goes_on`: what happens once there is room."""

    tables: tuple[str, ...]
    version: int
    anew: str
    goes_on: str


class ReadingTransaction:
    """A transaction that reads, while no other thread moves the map. Raises `StateError`."""

    __slots__ = ("_begin", "_lock", "_txn", "_unusable")

    def __init__(
        self, lock: threading.RLock, begin: Callable[[], Any], unusable: Callable[[str, Exception], StateError]
    ) -> None:
        self._lock = lock
        self._begin = begin
        self._unusable = unusable

    def __repr__(self) -> str:
        return "<a transaction that reads>"

    def __enter__(self) -> Any:
        self._lock.acquire()
        try:
            self._txn = self._begin()
        except lmdb.Error as error:
            self._lock.release()
            raise self._unusable("cannot be read", error) from None
        return self._txn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()
        self._lock.release()
        if isinstance(error, lmdb.Error | SystemError | OSError):  # the last of the key of its secrets
            raise self._unusable("cannot be read", error) from None


class Environment:
    """The environment in the folder `path`. Reads may come from any thread. Writes of several threads and processes
    come one after the other."""

    def __init__(self, path: Path, form: StateForm) -> None:
        self.path = path
        self._form = form
        self._readers = threading.RLock()  # no read may be under way while the map is moved
        self._writers = threading.Lock()
        try:
            self._open()
        except (lmdb.Error, OSError, ValueError) as error:
            raise self.unusable("cannot be opened", error) from None

    def __repr__(self) -> str:
        return f"<environment in {self.path}>"

    def _open(self) -> None:
        path, form = self.path, self._form
        if path.is_symlink() and not path.exists():
            raise StateError(
                f"the state in {path} cannot be opened: it is a symbolic link to {path.readlink()}, which is not "
                f"there; make that folder, or remove the link"
            )
        for folder in (path.parent.parent, path.parent, path):
            private_file.make_directory(folder)
        check_data_file(path)
        allot_lock_file(path)
        self._env = lmdb.open(str(path), map_size=self._map_bytes(), max_dbs=len(form.tables), mode=0o600)
        try:
            self._env.reader_check()  # those that a kill has left would keep pages from being used again
            self._make_readable()
            self._place = (path / DATA).stat()
            with self._begin(write=True) as txn:
                self.db = {name: self._env.open_db(name.encode(), txn=txn) for name in form.tables}
                version = bytes(txn.get(VERSION_ROW, db=self.db["meta"]) or b"")
                if not version:
                    txn.put(VERSION_ROW, b"%d" % form.version, db=self.db["meta"])
            if version not in (b"", b"%d" % form.version):
                raise StateError(
                    f"the state in {path} has the version {version.decode(errors='replace')[:20]}, and this program "
                    f"reads version {form.version}: run the program that wrote it; {form.anew}"
                )
        except BaseException:
            self._env.close()
            raise

    def _map_bytes(self) -> int:
        data = self.path / DATA
        return max(MAP_BYTES_MIN, (data.stat().st_size if data.exists() else 0) + (1 << 20))

    def _make_readable(self) -> None:
        """Extend a file that was cut short by empty pages, which LMDB then reports: a read past the end would end the
        process. A file that another process extends meanwhile is not cut."""
        data = self.path / DATA
        needed = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        if data.stat().st_size < needed:
            descriptor = os.open(data, os.O_RDWR)
            try:
                os.posix_fallocate(descriptor, needed - 1, 1)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        self._env.close()

    # -- reading and writing -------------------------------------------------------------------------------

    def _begin(self, *, write: bool = False) -> Any:
        """Begin a transaction, also after another process has made the environment larger."""
        try:
            return self._env.begin(write=write)
        except lmdb.MapResizedError:
            with self._readers:
                self._env.set_mapsize(0)
            return self._env.begin(write=write)

    def reading(self) -> ReadingTransaction:
        """Return a context that gives a transaction, which reads the last commit and in which nothing may wait."""
        return ReadingTransaction(self._readers, self._begin, self.unusable)

    def write(self, change: Callable[[Any], T]) -> T:
        """Commit what `change` writes in a transaction, or nothing; return its result. It is called again if the
        environment has to grow. Raise `StateError`."""
        try:
            self._check_in_place()
            with self._writers:
                for _ in range(GROWTHS_MAX):
                    try:
                        with self._begin(write=True) as txn:
                            return change(txn)
                    except lmdb.MapFullError:
                        if self._env.reader_check():  # a snapshot that was killed has kept pages from being used again
                            continue
                        self.grow(2 * self._env.info()["map_size"])
        except (lmdb.Error, SystemError, OSError) as error:
            raise self.unusable("cannot be written", error) from None
        raise StateError(f"the state in {self.path} grows by more than one transaction may add; write less at once")

    def _check_in_place(self) -> None:
        """Raise `StateError` if what is written would be nowhere."""
        try:
            if os.path.samestat((self.path / DATA).stat(), self._place):
                return
        except FileNotFoundError:
            pass
        said = f"the state in {self.path} cannot be written: it was renamed or removed while it was in use"
        raise StateError(f"{said}; put it back, or start again where it is now")

    def grow(self, map_bytes: int) -> None:
        """Let the environment grow to that size; called while nothing is written."""
        with self._readers:
            if self._env.info()["map_size"] < map_bytes:
                self._env.set_mapsize(map_bytes)

    def entries(self, txn: Any, table: str) -> int:
        """Return the number of rows of a table."""
        return int(txn.stat(self.db[table])["entries"])

    def unusable(self, what: str, error: Exception) -> StateError:
        """Return an error that says what failed, why, and what to do."""
        said = " ".join(str(error).split())
        number = getattr(error, "errno", 0)
        if full := lack_of_room(self.path, error):
            cause, remedy = full[0], f"{full[1]}, {self._form.goes_on}"
        elif number in (EACCES, EPERM, EROFS) or any(os.strerror(one) in said for one in (EACCES, EROFS)):
            cause, remedy = said, f"make it writable for this user, {self._form.goes_on}"
        else:
            cause, remedy = said, f"see to its disk; {self._form.anew}"
        return StateError(f"the state in {self.path} {what}: {cause}; {remedy}")


class SharedEnvironments:
    """The environments that this process has open: LMDB allows each to be opened once, so all who use one share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[Environment, int]] = {}

    def __repr__(self) -> str:
        return f"<{len(self._open)} shared environments>"

    def open(self, path: Path, form: StateForm) -> Environment:
        """Return the environment in that folder; `close` is called once for each `open`. Raise `StateError`."""
        place = path.resolve()
        with self._lock:
            known, users = self._open.get(place) or (Environment(path, form), 0)
            self._open[place] = known, users + 1
        return known

    def close(self, environment: Environment) -> None:
        with self._lock:
            place = next(one for one, (known, _) in self._open.items() if known is environment)
            _, users = self._open.pop(place)
            if users > 1:
                self._open[place] = environment, users - 1
            else:
                environment.close()


SHARED = SharedEnvironments()
