"""The files of the pages, as they lie in the folder `static`, those of the operator's page apart; and of one's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from services.web.core.http.pages import KINDS
from spark_analytics.report.page.style import sheet

OPERATOR = "operator/"
EDITION = "router/edition.js"
"""Tells pages by what digest of all files they were loaded, and later whether the node serves others."""
STYLE = "page.css"
APPS = "apps"
APPS_FILES_MAX, APPS_BYTES_MAX = 2_000, 64 << 20
"""The most files of one's own pages, and their bytes: they are kept in memory."""
APPS_FILE_BYTES_MAX = 8_000_000
"""The most bytes of one of them: it is written as a whole, and a stream for which more waits is closed
(`router.service.streams.UNSENT_BYTES_MAX`)."""
APPS_LOOKED_AT_MAX = 50_000
"""The most files and folders of any kind in a folder of them: the service starts when it has looked at all."""
_START = "and start the node again; until then none of the folders in apps is served"


class NoApps(Exception):
    """Pages of one's own cannot be read; the text says why and what to do."""


def read_static() -> Mapping[str, bytes]:
    """Return the pages' files by their paths below the folder, with the digest of all in the one that tells it."""
    found = {name: body for name, body in _files().items() if not name.startswith(OPERATOR)}
    return {**found, EDITION: found[EDITION].replace(b"''", f"'{edition_of(found)}'".encode())}


def edition_of(files: Mapping[str, bytes]) -> str:
    """Return 32 hexadecimal digits that differ if a path or a byte of these files does."""
    digests = (f"{name} {hashlib.sha256(body).hexdigest()}\n" for name, body in sorted(files.items()))
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:32]


def read_operator_files() -> Mapping[str, bytes]:
    """Return the files of the operator's page by name. Its style begins as that of the audit's page."""
    found = {name.removeprefix(OPERATOR): body for name, body in _files().items() if name.startswith(OPERATOR)}
    return {**found, STYLE: sheet().encode() + found[STYLE]}


def read_apps(folders: Sequence[str]) -> Mapping[str, bytes]:
    """Return the files of one's own pages by their paths, below the name of their folder. Raise `NoApps`."""
    found: dict[str, bytes] = {}
    size = 0
    for folder in map(Path, folders):
        try:
            for path in _shown_in(folder):
                own_size = path.stat().st_size
                size += own_size
                if own_size > APPS_FILE_BYTES_MAX:
                    said = f"apps: {path} has {own_size} bytes, and one file may have {APPS_FILE_BYTES_MAX}"
                    raise NoApps(f"{said}: make it smaller or take it out, {_START}")
                if len(found) >= APPS_FILES_MAX or size > APPS_BYTES_MAX:
                    raise _too_much(folder, f"{APPS_FILES_MAX} files or {APPS_BYTES_MAX >> 20} MiB")
                found[f"{APPS}/{folder.name}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
        except OSError as error:
            said = f"apps: {error.filename or folder} cannot be read ({error.strerror})"
            raise NoApps(f"{said}: see that it is there and that the node may read it, {_START}") from None
    return found


def _shown_in(folder: Path) -> Iterator[Path]:
    """Yield the files of pages in this folder; what is hidden, or leads elsewhere, is none. Raise `OSError` or
    `NoApps`."""
    root = folder.resolve(strict=True)
    if not root.is_dir():
        raise NoApps(f"apps: {folder} is no folder: name the one in which the pages are, {_START}")
    for looked_at, path in enumerate(folder.rglob("*")):
        if looked_at >= APPS_LOOKED_AT_MAX:
            raise _too_much(folder, f"{APPS_LOOKED_AT_MAX} files and folders")
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        is_page = not is_hidden and path.suffix[1:] in KINDS and path.is_file()
        if is_page and path.resolve().is_relative_to(root):
            yield path


def _too_much(folder: Path, most: str) -> NoApps:
    return NoApps(f"apps: {folder} has more than {most}: name a folder with the pages alone, {_START}")


def _files() -> Mapping[str, bytes]:
    root = Path(__file__).parent / "static"
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix[1:] in KINDS]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
