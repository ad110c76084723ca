"""The limit of file descriptors is raised as far as the system permits, with one warning if it is too low."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs.patience import HANG_S

from router.actors.process import program
from router.node.descriptors import LEAST, make_room


@pytest.fixture(autouse=True)
def soft_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] // 2, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_becomes_the_hard_one(caplog: pytest.LogCaptureFixture) -> None:
    assert make_room(1, 2) == 1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard and not caplog.records


def test_more_connections_than_descriptors_are_a_warning_that_names_both(caplog: pytest.LogCaptureFixture) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert make_room(hard - 99, 1) == hard * 3 // 4
    [said] = [one.getMessage() for one in caplog.records]
    assert f"limits.connections_max is {hard - 99}" in said and f"only {hard} file descriptors" in said


def test_a_limit_below_the_least_is_said_with_the_number_needed(tmp_path: Path) -> None:
    command = f'ulimit -n {LEAST - 1} && exec "$@"'
    words = ["sh", "-c", command, "sh", *program("router"), "serve", "--home", str(tmp_path / "home")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=HANG_S)
    said = f"this process may have only {LEAST - 1} file descriptors open, and a node needs {LEAST} at least; raise"
    assert (done.returncode, done.stderr.startswith(said), list(tmp_path.iterdir())) == (1, True, [])


def test_listeners_share_what_is_left_beside_the_store_and_the_log() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = hard * 3 // 4 // 2
    assert make_room(hard, 2) == room == make_room(room, 2)
