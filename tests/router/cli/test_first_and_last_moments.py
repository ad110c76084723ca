"""Signals while the command line is loaded, and after it has ended."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from rigs.patience import HANG_S

LOADING = """
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "router.cli.version":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from router.__main__ import main
main()
"""
ENDED = """
import atexit, signal, sys
import router.cli
from router.__main__ import main
def end():
    sys.exit(130)
router.cli.main = end
atexit.register(signal.raise_signal, int(sys.argv[1]))
main()
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-c", script, *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)


def test_ctrl_c_while_the_command_line_is_loaded_shows_no_traceback() -> None:
    done = run(LOADING)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_the_end_leaves_the_exit_code(number: signal.Signals) -> None:
    done = run(ENDED, str(int(number)))
    assert (done.returncode, done.stderr) == (130, "")
