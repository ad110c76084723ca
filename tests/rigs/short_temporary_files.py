"""Where pytest keeps the temporary files of tests: below TMPDIR, unless Unix sockets do not fit there, or a path has
characters that shells quote: whole lines of output are compared, and quoting has tests of its own."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

PLAIN = re.compile(r"[\w./-]{1,24}", re.ASCII)
"""A socket's path may have 107 characters, of which a test's own folder and names take up to 83."""
PLACES = "/tmp", "/var/tmp"
VARIABLE = "PYTEST_DEBUG_TEMPROOT"


def short_place() -> str | None:
    """Return the directory in which a test makes a temporary one with sockets; None: where all are."""
    return os.environ.get(VARIABLE)


def short_folder() -> Path:
    """Make a folder whose path leaves room for a socket's file with a long name."""
    return Path(tempfile.mkdtemp(prefix="run", dir=short_place()))


def keep_them_short(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let pytest keep temporary files in a place with a short and plain name, if TMPDIR is another."""
    if PLAIN.fullmatch(tempfile.gettempdir()):
        return
    for place in PLACES:
        if os.access(place, os.W_OK | os.X_OK):
            environment.setdefault(VARIABLE, place)
            return
