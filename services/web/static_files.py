"""The files of the pages, as they lie in the folder `static`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from services.web.core.pages import KINDS


def read_static() -> Mapping[str, bytes]:
    """Return the pages' files by their paths below the folder."""
    root = Path(__file__).parent / "static"
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix[1:] in KINDS]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
