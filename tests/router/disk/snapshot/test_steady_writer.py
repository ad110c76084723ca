"""A large file is synced while it is written, and an error of that sync is not lost."""

from __future__ import annotations

import os
from contextlib import closing
from errno import EINVAL
from pathlib import Path

import pytest

from router.disk.snapshot import steady_writer
from router.disk.snapshot.steady_writer import SteadyWriter


def test_all_that_was_written_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_writer, "STEP_BYTES", 100)
    with (tmp_path / "file").open("wb") as file, closing(SteadyWriter(file)) as writer:
        for number in range(200):
            writer.write(bytes([number]) * 30)
        writer.finish()
    assert (tmp_path / "file").read_bytes() == b"".join(bytes([number]) * 30 for number in range(200))


def test_an_error_of_a_sync_beside_the_writes_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_writer, "STEP_BYTES", 100)
    reads, writes = os.pipe()  # which cannot be synced
    with os.fdopen(reads), os.fdopen(writes, "wb") as file, closing(SteadyWriter(file)) as writer:
        writer.write(bytes(100))
        with pytest.raises(OSError, match=os.strerror(EINVAL)):
            writer.finish()
