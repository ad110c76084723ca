"""The files of the pages, as they lie in the folder `static`, those of the operator's page apart; and of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from services.web.core.pages import KINDS
from spark_analytics.report.page.style import sheet

OPERATOR = "operator/"
STYLE = "page.css"
APPS = "apps"
APPS_FILES_MAX, APPS_BYTES_MAX = 2_000, 64 << 20
"""The most files of one's own pages, and their bytes: they are kept in memory."""


class NoApps(Exception):
    """Pages of one's own cannot be read; the text says why and what to do."""


def read_static() -> Mapping[str, bytes]:
    """Return the pages' files by their paths below the folder."""
    return {name: body for name, body in _files().items() if not name.startswith(OPERATOR)}


def read_operator_files() -> Mapping[str, bytes]:
    """Return the files of the operator's page by name. Its style begins as that of the audit's page."""
    found = {name.removeprefix(OPERATOR): body for name, body in _files().items() if name.startswith(OPERATOR)}
    return {**found, STYLE: sheet().encode() + found[STYLE]}


def read_apps(folders: Sequence[str]) -> Mapping[str, bytes]:
    """Return the files of one's own pages by their paths, below the name of their folder. Raise `NoApps`."""
    found: dict[str, bytes] = {}
    size = 0
    for folder in map(Path, folders):
        for path in _shown_in(folder):
            size += path.stat().st_size
            if len(found) >= APPS_FILES_MAX or size > APPS_BYTES_MAX:
                most = f"{APPS_FILES_MAX} files or {APPS_BYTES_MAX >> 20} MiB"
                raise NoApps(f"apps: {folder} has more than {most}: name a folder with the pages alone")
            found[f"{APPS}/{folder.name}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    return found


def _shown_in(folder: Path) -> Iterator[Path]:
    """Yield the files of pages in this folder; what is hidden, or leads elsewhere, is none."""
    try:
        root = folder.resolve(strict=True)
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix[1:] in KINDS)
    except OSError as error:
        raise NoApps(f"apps: {folder} cannot be read ({error.strerror}): its pages are not served") from None
    for path in paths:
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not is_hidden and path.resolve().is_relative_to(root):
            yield path


def _files() -> Mapping[str, bytes]:
    root = Path(__file__).parent / "static"
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix[1:] in KINDS]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
