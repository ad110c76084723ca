"""The digests of the files that an audit wrote."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from hashlib import file_digest, sha256
from pathlib import Path

FILES_MAX = 100_000
"""Most files of an audit; Spark writes several for each table and day."""


class OddFile(Exception):
    """A directory holds what is no file of an audit; the text says what, and what to do."""


def file_digests(directory: Path, wanted: Container[str] | None = None) -> dict[str, str]:
    """Return the SHA-256 (hex) of each file below the directory, by its path from there with slashes, sorted. Hidden
    files are left out. Raise `OddFile` or `OSError`.

    `wanted`: the paths of the files that are read, if not all are; the digest of any other is ""."""
    files: dict[str, Path] = {}
    for path in _files(directory):
        if len(files) == FILES_MAX:
            raise OddFile(f"{directory} holds more than {FILES_MAX:,} files: name the directory of one audit")
        files[path.relative_to(directory).as_posix()] = path
    is_read = files if wanted is None else wanted
    return {name: _digest(path) if name in is_read else "" for name, path in sorted(files.items())}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, sha256).hexdigest()


def table_digests(files: Mapping[str, str]) -> dict[str, str]:
    """Return the digest of each table. That of a table in several files is the SHA-256 of their lines as `sha256sum`
    prints them, in order of their paths."""
    tables: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, digest in sorted(files.items()):
        top, _, rest = path.partition("/")
        tables[top if rest else top.removesuffix(".parquet")].append((path, digest))
    return {name: found[0][1] if "/" not in found[0][0] else _joined(found) for name, found in tables.items()}


def _joined(files: list[tuple[str, str]]) -> str:
    return sha256("".join(f"{digest}  {path}\n" for path, digest in files).encode()).hexdigest()


def _files(directory: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in (*names, *(name for name in folders if (Path(folder) / name).is_symlink())):
            path = Path(folder) / name
            if name.startswith("."):
                continue
            if not stat.S_ISREG(path.lstat().st_mode):
                raise OddFile(f"{path} is no regular file, so it is not of an audit: move it away")
            yield path


def _raise(error: OSError) -> None:
    raise error
