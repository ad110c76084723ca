"""Renewals of kept keys are finished on the disk, each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from router.core.routing.effects import KeyRenewed
from router.node.key_files import KeyFiles
from router.settings import keyring, renewed_keys
from router.settings.home import Home


def test_a_damaged_renewal_keeps_no_other_from_being_finished(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = Home(tmp_path)
    old, files = keyring.load_or_create(home, "laptop"), KeyFiles(home.key_path.parent)
    said = renewed_keys.begin(files.keys, "laptop", lambda: old, 1_800_000_000)
    (files.keys / "broken.renewing").touch(0o600)
    assert files.begun() == [said]
    trio.run(files.renewed, KeyRenewed(said))
    assert keyring.load(home, "laptop").public == said.new and files.begun() == []
    assert "broken.renewing should hold a renewal that has begun" in caplog.text
