"""Where the quick tests keep their temporary files: in memory where there is room, since a file made on a disk costs
twenty times the CPU time, and tests that commit wait for it.

`make long` keeps them on the disk, and there runs the quick tests of what is about disks. A TMPDIR of the user's stays:
`TMPDIR=/tmp make test` keeps all on the disk.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

PLACE = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""Free bytes in the place, and half of what must be free of memory, without which the files stay on the disk. Half of
the tests of nodes and pages had 40 MB there at most at a time."""
_AVAILABLE = re.compile(r"MemAvailable: +(\d+) kB")


def keep_them_in_memory(environment: MutableMapping[str, str] = os.environ, place: Path = PLACE) -> None:
    """Let this process and its children make temporary files there, unless TMPDIR says where or there is no room."""
    if "TMPDIR" not in environment and _has_room(place):
        environment["TMPDIR"] = str(place)
        tempfile.tempdir = None


def _has_room(place: Path) -> bool:
    try:
        found, memory = os.statvfs(place), Path("/proc/meminfo").read_text("ascii")
    except OSError:
        return False
    available = _AVAILABLE.search(memory)
    return (
        available is not None
        and int(available[1]) << 10 >= 2 * ROOM_BYTES
        and found.f_bavail * found.f_frsize >= ROOM_BYTES
        and not found.f_flag & os.ST_NOEXEC
        and os.access(place, os.W_OK | os.X_OK)
    )
