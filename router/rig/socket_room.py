"""Where a temporary directory has room for Unix sockets, whose paths are short: TMPDIR may be a long one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

from router.transport.socket_file import PATH_BYTES_MAX

NAMES_BYTES = 64
"""Room for the names of a directory of a command's own, and of sockets below it."""
PLACES = "/tmp", "/var/tmp"


def socket_room(places: Sequence[str] = PLACES) -> str | None:
    """Return the directory in which to make a temporary one with sockets; None: where all temporary files are, since
    they fit there, or nowhere else."""
    if _has_room(tempfile.gettempdir()):
        return None
    return next((one for one in places if _has_room(one) and os.access(one, os.W_OK | os.X_OK)), None)


def _has_room(place: str) -> bool:
    return len(os.fsencode(place)) + NAMES_BYTES <= PATH_BYTES_MAX
