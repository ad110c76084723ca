"""Texts in directories of this machine, written and read by Python: Spark plans a job for each of them."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

MARK = "_SUCCESS"
"""The file by which Hadoop says that a directory is whole."""


def write_text(place: str, text: str) -> None:
    """Write a text as the only part of a directory, replacing what is there, as Spark does: a reader finds the old one
    or the new one, or for a moment none."""
    target = _path(place)
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    (draft / f"part-00000-{uuid.uuid4()}.txt").write_bytes(f"{text}\n".encode("utf-8", "replace"))
    (draft / MARK).touch()
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)


def read_texts(pattern: str) -> list[str]:
    """Return the lines of all texts whose place is like this one."""
    target = _path(pattern)
    paths = sorted(target.parent.glob(f"{target.name}/part-*"))
    return [line for path in paths for line in path.read_text("utf-8").splitlines()]


def _path(place: str) -> Path:
    return Path(place.removeprefix("file:"))
