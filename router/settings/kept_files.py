"""The small files of one kind in a directory, each read once and again when it has changed.

A process remembers what it has read. A value that was found is given again after a look at the state of its file, which
opens nothing; the names are listed again when the state of the directory differs. So a file that another process adds,
replaces or removes is noticed by the next look. A file with a fault is left out, and named in the log when it is read.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

DIRECTORIES_MAX = 16
"""Directories of which a process remembers the files; the one that was read first is forgotten."""
TICK_NS = 2_000_000_000
"""How long a directory may change again without another time of its last change: file systems count in up to 2 s."""

State = tuple[int, ...]
Value = TypeVar("Value")

log = logging.getLogger(__name__)


class KeptFile(Struct, Generic[Value], frozen=True):
    """A file in the state in which it was read: its value, or its fault as a sentence."""

    state: State | None
    value: Value | str


class FilesRead(Struct, Generic[Value], frozen=True):
    """A directory's files by name, sorted, and the names of those without a fault by their key. `state`: of the
    directory, None if there was none, when the names were listed at `at_ns`."""

    state: State | None
    at_ns: int
    files: Mapping[str, KeptFile[Value]]
    by_key: Mapping[bytes, str]

    @property
    def values(self) -> dict[str, Value]:
        """Return the values by name, without the files that have a fault."""
        return {name: one.value for name, one in self.files.items() if not isinstance(one.value, str)}

    def is_of(self, state: State | None) -> bool:
        """Whether a directory in this state holds the names that were listed."""
        return self.state == state and (state is None or self.at_ns - state[-1] > TICK_NS)


class KeptFiles(Generic[Value]):
    """Reads the files of one kind. `read` returns a file's value, None if it is gone, or its fault; `key_of` the key
    under which a value is found. A name fits `names`, and its file has the suffix."""

    def __init__(
        self,
        read: Callable[[Path], Value | str | None],
        key_of: Callable[[Value], bytes],
        names: str,
        suffix: str = "",
    ) -> None:
        self._read = read
        self._key_of = key_of
        self._names = re.compile(names)
        self._suffix = suffix
        self._listings: dict[Path, FilesRead[Value]] = {}

    def __repr__(self) -> str:
        return f"<files *{self._suffix} of {len(self._listings)} directories>"

    def names(self, directory: Path) -> list[str]:
        """Return the names of all files, sorted, also of those with a fault. Raise `OSError` if they cannot be
        listed."""
        try:
            files = [one.name for one in directory.iterdir()]
        except FileNotFoundError:
            return []
        found = (one.removesuffix(self._suffix) for one in files if one.endswith(self._suffix))
        return sorted(one for one in found if self._names.fullmatch(one))

    def list(self, directory: Path) -> FilesRead[Value]:
        """Return all files as they are now, after a look at each."""
        before = self._listings.get(directory)
        at_ns, state = time.time_ns(), _state_of(directory)
        files: dict[str, KeptFile[Value]] = {}
        for name in self.names(directory):
            old = before.files.get(name) if before is not None else None
            if (one := self._file(self._path(directory, name), old)) is not None:
                files[name] = one
        by_key: dict[bytes, str] = {}
        for name, one in files.items():
            if not isinstance(one.value, str):
                by_key.setdefault(self._key_of(one.value), name)
        found = self._listings[directory] = FilesRead(state, at_ns, files, by_key)
        while len(self._listings) > DIRECTORIES_MAX:
            self._listings.pop(next(iter(self._listings)), None)
        return found

    def named(self, directory: Path, name: str) -> Value | str | None:
        """Return the value of the file with that name, None if there is none, or its fault."""
        path = self._path(directory, name)
        listing = self._listings.get(directory)
        if listing is None:
            return self._read(path)  # one file is enough
        one = self._unchanged(listing, directory, name)
        if one is None and _state_of(path) is not None:
            one = self.list(directory).files.get(name)
        return None if one is None else one.value

    def keyed(self, directory: Path, key: bytes) -> tuple[str, Value] | None:
        """Return name and value of the file with that key; None if there is none."""
        listing = self._listings.get(directory)
        found = None if listing is None else self._with_key(listing, directory, key)
        if found is None and (listing is None or not listing.is_of(_state_of(directory))):
            found = self._with_key(self.list(directory), directory, key)
        return found

    def is_at_hand(self, directory: Path, name: str, key: bytes | None) -> bool:
        """Whether the file with that name or that key is found, or known to be missing, without reading any."""
        listing = self._listings.get(directory)
        if listing is None:
            return False
        known = name if name in listing.files else listing.by_key.get(key or b"")
        if known is None:
            return listing.is_of(_state_of(directory))
        return self._unchanged(listing, directory, known) is not None

    def _with_key(self, listing: FilesRead[Value], directory: Path, key: bytes) -> tuple[str, Value] | None:
        name = listing.by_key.get(key, "")
        one = self._unchanged(listing, directory, name) if name else None
        return None if one is None or isinstance(one.value, str) else (name, one.value)

    def _unchanged(self, listing: FilesRead[Value], directory: Path, name: str) -> KeptFile[Value] | None:
        """Return a file as it was read, if it has not changed since."""
        one = listing.files.get(name)
        return one if one is not None and one.state == _state_of(self._path(directory, name)) else None

    def _path(self, directory: Path, name: str) -> Path:
        return directory / (name + self._suffix)

    def _file(self, path: Path, old: KeptFile[Value] | None) -> KeptFile[Value] | None:
        """Read a file if it differs from the old one; name its fault in the log."""
        state = _state_of(path)
        if old is not None and old.state == state:
            return old
        value = self._read(path)
        if value is None and path.is_symlink():
            value = f"{path} is a symbolic link to a file that is not there; mend it or remove it"
        if isinstance(value, str):
            log.warning("%s", value)
        return None if value is None else KeptFile(state, value)


def _state_of(path: Path) -> State | None:
    """Return what changes when a file or directory is changed or replaced, the time of its last change last; None if
    there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.errno or 0, 0
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns, found.st_mtime_ns
