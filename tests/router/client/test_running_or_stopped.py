"""A home that is held: a running node is asked; any other holder is waited for, and then named."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from router.client import running_or_stopped as held_home
from router.client.errors import NodeUnavailable
from router.client.running_or_stopped import asked_or_read
from router.settings.home import Home, HomeBusy


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.create()
    return found


def never() -> str:
    raise AssertionError("not this way")


def nobody() -> str:
    raise NodeUnavailable("nobody listens; start one")


def test_a_home_that_is_free_is_read_under_its_lock(home: Home) -> None:
    def read() -> str:
        with pytest.raises(HomeBusy), home.lock():
            never()
        return "read"

    assert asked_or_read(home, never, read) == "read"


def test_the_node_that_holds_it_is_asked(home: Home) -> None:
    with home.lock():
        assert asked_or_read(home, lambda: "told", never) == "told"


def test_who_cannot_be_asked_is_waited_for(home: Home) -> None:
    with ExitStack() as held:
        held.enter_context(home.lock())

        def ask() -> str:
            held.close()
            return nobody()

        assert asked_or_read(home, ask, lambda: "read") == "read"


def test_a_node_that_starts_is_asked_when_it_listens(home: Home) -> None:
    answers: list[Callable[[], str]] = [nobody, nobody, lambda: "told"]
    with home.lock():
        assert asked_or_read(home, lambda: answers.pop(0)(), never) == "told"


def test_who_holds_it_for_longer_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_home, "PATIENCE_S", 0.0)
    with home.lock(), pytest.raises(HomeBusy) as busy:
        asked_or_read(home, nobody, never)
    assert str(busy.value) == (
        f"the home {home.path} is in use by pid {os.getpid()} (a node that starts or stops, or another command that "
        "reads it), and nobody listens: try again"
    )


def test_other_errors_pass(home: Home) -> None:
    def fail() -> str:
        raise LookupError

    with pytest.raises(LookupError):
        asked_or_read(home, never, fail)
    with home.lock(), pytest.raises(LookupError):
        asked_or_read(home, fail, never)
