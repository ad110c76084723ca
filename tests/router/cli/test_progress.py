"""The line that tells how far a command has come."""

from __future__ import annotations

import sys
from io import BytesIO, StringIO

import pytest

from router.cli.progress import CountedFile, progress, progress_line

MIB = 1 << 20


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "said"),
    [
        (0, 100 * MIB, 0.0, "0 B of 100.0 MiB"),
        (25 * MIB, 100 * MIB, 5.0, "25.0 MiB of 100.0 MiB, 5.0 MiB/s, 15 s left"),
        (100 * MIB, 100 * MIB, 5.0, "100.0 MiB of 100.0 MiB, 20.0 MiB/s"),
        (101 * MIB, 100 * MIB, 1.0, "101.0 MiB of 100.0 MiB, 101.0 MiB/s"),
        (25 * MIB, 0, 5.0, "25.0 MiB, 5.0 MiB/s"),
    ],
)
def test_line_tells_bytes_rate_and_the_time_that_is_left(done: int, total: int, elapsed_s: float, said: str) -> None:
    assert progress_line(done, total, elapsed_s) == said
    assert len(said) < 80


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "is_told"), [(Terminal(), True), (StringIO(), False)])
def test_progress_is_told_on_a_terminal_only(stream: StringIO, is_told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(10) as on_bytes:
        file = CountedFile(BytesIO(b"line\nrest!"), on_bytes)
        assert (file.readline(), file.read(3), file.read()) == (b"line\n", b"res", b"t!")
    assert bool(stream.getvalue()) is is_told
    assert not is_told or stream.getvalue().endswith("\r\x1b[K")
