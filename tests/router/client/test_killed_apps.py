"""What two apps of a home remember is of one moment, before whichever step of theirs they are killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.killed_apps import kill


@pytest.mark.parametrize("kills", (8, pytest.param(1000, marks=pytest.mark.long)))
def test_apps_that_are_killed_before_any_step_lose_nothing_and_are_shown_nothing_twice(
    tmp_path: Path, kills: int
) -> None:
    kill(tmp_path / "home", kills, seed=kills)
