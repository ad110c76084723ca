"""What the jobs print reaches its reader, and does not stop the job where the reader has gone."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from spark_analytics.report.output import remark, say


@pytest.mark.parametrize(("written", "where"), [(say, "sys.stdout"), (remark, "sys.stderr")])
def test_lines_whose_reader_has_gone_are_discarded(
    written: Callable[[str], None], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as output:
        monkeypatch.setattr(where, output)
        written("one")
        assert os.read(ours, 64) == b"one\n"
        os.close(ours)
        written("two")
        written("three")


def test_a_remark_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    remark("a \x1b[31mlog")
    said = capsys.readouterr()
    assert "\x1b" not in said.err and "log" in said.err and said.out == ""
