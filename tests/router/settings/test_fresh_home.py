"""A home that was made for a node that cannot start is gone again; what was there before stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.settings.fresh_home import removed_on_error
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create


class CannotStart(Exception):
    pass


def fail_in(home: Home) -> list[str]:
    """Make a node in the home and fail; return what was said."""
    said: list[str] = []
    with pytest.raises(CannotStart), removed_on_error(home, lambda: said.append("removed")):
        home.create()
        load_or_create(home, NODE)
        raise CannotStart
    return said


def test_it_is_gone_with_the_directories_above_it_that_were_made(tmp_path: Path) -> None:
    assert fail_in(Home(tmp_path / "new" / "home")) == ["removed"]
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.path.mkdir(mode=0o700)
    (home.path / "kept").write_text("mine")
    assert fail_in(home) == ["removed"]
    assert [one.name for one in home.path.iterdir()] == ["kept"]


def test_a_node_that_was_there_before_stays(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    load_or_create(home, NODE)
    before = sorted(home.path.rglob("*"))
    assert fail_in(home) == [] and sorted(home.path.rglob("*")) == before


def test_a_home_in_which_another_process_runs_a_node_by_now_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    said: list[str] = []
    with pytest.raises(CannotStart), removed_on_error(home, lambda: said.append("removed")):
        home.create()
        load_or_create(home, NODE)
        held = home.lock()
        held.__enter__()
        raise CannotStart
    held.__exit__(None, None, None)
    assert said == [] and home.holds_node


def test_a_home_that_was_used_without_fault_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with removed_on_error(home, lambda: pytest.fail("it was removed")):
        home.create()
        load_or_create(home, NODE)
    assert home.holds_node
