"""A large file is on the disk as it was written, past the page cache or through it, and no error of that is lost."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from errno import EINVAL
from pathlib import Path
from random import Random

import pytest

from router.disk.snapshot import steady_writer
from router.disk.snapshot.steady_writer import SteadyWriter

BLOCK = 1 << 14
CONTENT = Random(1).randbytes(5 * BLOCK)


@pytest.fixture(params=["past the cache", "through the cache"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(steady_writer, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(steady_writer, "STEP_BYTES", 3000)
    if request.param == "through the cache":
        monkeypatch.setattr(steady_writer, "_DIRECT", 0)
    return str(request.param)


@contextmanager
def files_may_have(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 5 * BLOCK - 1])
@pytest.mark.parametrize("part", [999, 2 * BLOCK + 7])
def test_all_that_was_written_is_in_the_file_and_it_can_be_read_on(
    size: int, part: int, way: str, tmp_path: Path
) -> None:
    with (tmp_path / "file").open("w+b") as file, closing(SteadyWriter(file)) as writer:
        for at in range(0, size, part):
            writer.write(CONTENT[at : min(size, at + part)])
        writer.finish()
        assert file.tell() == size
        file.seek(1)
        assert file.read(7) == CONTENT[1 : min(size, 8)]
        assert not fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT
    assert (tmp_path / "file").read_bytes() == CONTENT[:size]


def test_an_error_beside_the_writes_is_raised(way: str, tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="File too large"),
        files_may_have(2 * BLOCK),
        (tmp_path / "file").open("w+b") as file,
        closing(SteadyWriter(file)) as writer,
    ):
        for at in range(0, len(CONTENT), BLOCK):
            writer.write(CONTENT[at : at + BLOCK])
        writer.finish()


def test_what_cannot_be_synced_is_told(way: str) -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads), os.fdopen(writes, "wb") as file, closing(SteadyWriter(file)) as writer:
        writer.write(CONTENT[:BLOCK])
        with pytest.raises(OSError, match=os.strerror(EINVAL)):
            writer.finish()


def test_a_file_that_is_given_up_keeps_no_thread(way: str, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file, closing(SteadyWriter(file)) as writer:
        writer.write(CONTENT)
    assert not [one for one in threading.enumerate() if one.name.startswith(("write", "sync"))]
