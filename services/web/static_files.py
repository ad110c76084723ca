"""The files of the pages, as they lie in the folder `static`; those of the operator's page apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from services.web.core.pages import KINDS
from spark_analytics.report.page.style import sheet

OPERATOR = "operator/"
STYLE = "page.css"


def read_static() -> Mapping[str, bytes]:
    """Return the pages' files by their paths below the folder."""
    return {name: body for name, body in _files().items() if not name.startswith(OPERATOR)}


def read_operator_files() -> Mapping[str, bytes]:
    """Return the files of the operator's page by name. Its style begins as that of the audit's page."""
    found = {name.removeprefix(OPERATOR): body for name, body in _files().items() if name.startswith(OPERATOR)}
    return {**found, STYLE: sheet().encode() + found[STYLE]}


def _files() -> Mapping[str, bytes]:
    root = Path(__file__).parent / "static"
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix[1:] in KINDS]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
