"""Commands whose standard streams are closed say so, and no file of theirs gets the descriptor of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rigs.commands import ROUTER, run_in
from rigs.patience import HANG_S

CLOSING = "import os, sys; os.close(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"


def without(descriptor: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with that standard descriptor closed, and the others pipes."""
    words = [sys.executable, "-c", CLOSING, str(descriptor), *command]
    return subprocess.run(words, input="", capture_output=True, text=True, timeout=HANG_S)


@pytest.mark.parametrize(
    ("descriptor", "command", "code", "said"),
    [
        (0, ("backup", "new.snapshot"), 2, "the passphrase cannot be asked for without a terminal"),
        (0, ("restore", "-", "--home", "new", "--yes"), 2, "standard input is closed; name a file"),
        (0, ("restore", "missing", "--home", "new"), 2, "give --yes if that one never runs again"),
        (0, ("capd", "decode"), 2, "standard input is closed; give messages as HEX or with --dat FILE"),
        (0, ("capd", "solve", "-"), 2, "standard input is closed; give the data as DATA or --hex HEX"),
        (1, ("backup", "-", "--plain"), 2, "standard output is closed; name a file"),
        (1, ("man", "pub"), 0, ""),
        (1, ("recv", "--timeout", "1"), 2, "standard output is closed; name a file, or /dev/null"),
        (1, ("group", "share", "g", "--qr"), 0, ""),
        (2, ("audit", "empty"), 0, ""),
    ],
)
def test_a_command_without_a_standard_stream_ends_with_a_sentence(
    home: Path, descriptor: int, command: tuple[str, ...], code: int, said: str
) -> None:
    at_home = run_in(home)
    at_home("group", "new", "g")
    (home / "empty").touch()
    words = [str(home / one) if one in ("new", "empty") else one for one in command]
    done = without(descriptor, *ROUTER, "--home", str(home), *words)
    assert (done.returncode, "something is wrong" in done.stderr) == (code, False), done.stderr
    assert said in done.stderr


def test_a_command_opens_no_file_as_standard_error(tmp_path: Path) -> None:
    looking = """
import os, sys
from router.cli import streams
streams.hold_descriptors()
with open(sys.argv[1], "w") as file:
    file.write(str(file.fileno()))
os.write(2, b"what a library prints")
"""
    done = without(2, sys.executable, "-c", looking, str(tmp_path / "opened"))
    assert done.returncode == 0 and int((tmp_path / "opened").read_text()) > 2
