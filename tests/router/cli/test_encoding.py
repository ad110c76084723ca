"""Output to a terminal without Unicode, and remedies that name the given home."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from rigs.commands import ROUTER, Run

from router.cli.output import say_json


def test_a_terminal_without_unicode_is_shown_plain_characters(router: Run, home: Path) -> None:
    router("group", "new", "pals")
    done = subprocess.run(
        [*ROUTER, "--home", str(home), "group", "list"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split()[-3].endswith(b"...")


def test_a_remedy_names_the_home_that_was_given(router: Run, home: Path) -> None:
    router("init")
    assert f"`router --home {home} serve`" in router("status").stderr


def test_a_home_that_others_could_write_to_is_said_to_have_been_open(router: Run, home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    done = subprocess.run([*ROUTER, "--home", str(home), "init"], capture_output=True, text=True, check=True)
    assert f"{home} was open to others (mode 777): it is 700 now" in done.stderr
    assert home.stat().st_mode & 0o777 == 0o700


def test_json_holds_nothing_that_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    """Texts of others come as JSON too: control characters beyond ASCII and marks of direction are escaped."""
    value = {"text": "é\x9b2J\x1b[8m\u202e\u2028\x7f", "key": b"\x01"}
    say_json(value)
    out = capsys.readouterr().out.removesuffix("\n")
    assert out.isprintable() and json.loads(out) == {**value, "key": "01"}
