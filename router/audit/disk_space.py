"""Report disks that are full, or on which a user's quota is used up."""

from __future__ import annotations

import errno
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def no_room(where: Path, near: Path | None) -> str:
    """Return the sentence about a full disk. `near`: the directory given with --out; None if the full directory is the
    one for temporary files."""
    remedy = "set TMPDIR to a directory" if near is None else "name with --out a directory"
    return f"the disk of {where} is full: make room there, or {remedy} on another disk"
