"""The audit's commands on a full disk of 1 MB in a namespace: their message, and the files that they leave."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fleets.shared import Fleets
from rigs.small_disk import on_a_small_disk

ROUTER = f"{sys.executable} -m router"


@pytest.fixture
def here(fleets: Fleets, tmp_path: Path) -> Path:
    (tmp_path / "logs").symlink_to(fleets(4, 400, 0))
    return tmp_path


def test_an_audit_s_tables(here: Path) -> None:
    said = on_a_small_disk(here, f"{ROUTER} audit logs --out full/new/out")
    text = f"the disk of {here}/full/new is full: make room there, or name with --out a directory on another disk"
    assert said == [text, "code 1", "full full/new"]


def test_an_audit_s_temporary_files(here: Path) -> None:
    said = on_a_small_disk(here, f"TMPDIR=$PWD/full {ROUTER} audit logs")
    text = f"the disk of {here}/full is full: make room there, or set TMPDIR to a directory on another disk"
    assert said == [text, "code 1", "full"]


def test_an_export(here: Path) -> None:
    said = on_a_small_disk(here, f"{ROUTER} audit-export logs --secret secret --out full/new/out")
    text = f"the disk of {here}/full/new is full: make room there, or name with --out a directory on another disk"
    assert said[1:] == [f"{text}; nothing was exported", "code 1", "full"]


def test_a_secret(here: Path) -> None:
    script = f"head -c 2M /dev/zero >full/other\n{ROUTER} audit-export logs --secret full/secret --out out"
    said = on_a_small_disk(here, script)[-3:]
    text = "full/secret cannot be made: No space left on device; make room there, or name a file on another disk"
    assert said == [text, "code 1", "full full/other"]
