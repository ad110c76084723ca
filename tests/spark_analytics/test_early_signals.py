"""Ctrl-C and SIGTERM end the job and the stream without a traceback also while Python loads them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = "import signal\nprint('loading', flush=True)\nwhile True:\n    signal.pause()\n"
"""A package that takes for ever to load."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["job", "streaming"])
def test_a_signal_during_the_imports_ends_without_a_traceback(tmp_path: Path, module: str, number: int) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(SLOW)
    path = os.pathsep.join((str(tmp_path), *sys.path))
    command = [sys.executable, "-m", f"spark_analytics.{module}", "logs", "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "loading\n"
        started.send_signal(number)
        _, said = started.communicate()
    assert (started.returncode, said) == (-number, "")
