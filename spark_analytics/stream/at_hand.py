"""How much a run of a stream has to read, told before Spark starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PAST = 8
"""Earlier files cost a batch about as much as new ones of an eighth of their bytes: it reads the sums of them."""


def bytes_at_hand(paths: Sequence[str], out: str) -> int | None:
    """Return how many bytes of log came to these directories since the last batch of the stream in `out`, and an eighth
    of those before; None if that cannot be told, or not all is on this machine. A file came when it was created,
    renamed or linked there."""
    if any("://" in path for path in (*paths, out)):
        return None
    try:
        noted_ns = max((path.stat().st_mtime_ns for path in Path(out, "state").glob("note-*")), default=0)
        files = [path.stat() for root in paths for path in Path(root).rglob("*.jsonl*")]
    except OSError:  # A file was renamed meanwhile, or may not be looked at.
        return None
    new = sum(file.st_size for file in files if file.st_ctime_ns > noted_ns)
    return new + sum(file.st_size for file in files if file.st_ctime_ns <= noted_ns) // PAST
