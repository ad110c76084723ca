"""Fleets that several tests read, each written once for all workers of a run."""

from __future__ import annotations

from fcntl import LOCK_EX, flock
from pathlib import Path

from fleets.writing import write_fleet

SEGMENT_BYTES = 20_000
"""Small enough that each log has several segments, and neighbours witness heads."""


class Fleets:
    """Written fleets below a directory that all workers share. A test that changes one does so on a copy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(exist_ok=True)

    def __call__(self, nodes: int, messages: int, seed: int, segment_bytes: int = SEGMENT_BYTES) -> Path:
        """Return the directory of this fleet (`writing.write_fleet`)."""
        path = self._directory / f"{nodes}-{messages}-{seed}-{segment_bytes}"
        with (self._directory / f".{path.name}").open("w") as lock:
            flock(lock, LOCK_EX)
            if not path.exists():
                draft = path.with_name(f".{path.name}.draft")
                write_fleet(draft, nodes, messages, seed, segment_bytes=segment_bytes)
                draft.rename(path)
        return path
