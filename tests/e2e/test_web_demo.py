"""`router web demo` on real processes: every count holds; and each count can fail."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from rig import ROUTER
from rigs.patience import HANG_S

from services.web.demo.stage import FIRST, Played
from services.web.demo_command import checked


@pytest.mark.long
def test_script_reader_and_kill_lose_nothing() -> None:
    command = [*ROUTER, "web", "demo", "--messages", "6", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * HANG_S, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] and done.returncode == 0, [one for one in found["checks"] if not one["holds"]]


def as_it_is_to_be() -> Played:
    return Played(
        3, 1, chat_page=200, ready=200, told={"reached": 1}, events=[FIRST], delivered=1.0, answered=3, kills=1,
        after_kill=2, waiting=3, received=[FIRST, "0", "1", "2"], why=[{"fields": {"token": "alarm"}}],
        audit={"unaccounted": 0},
    )  # fmt: skip


def test_all_holds_if_all_is_as_it_is_to_be() -> None:
    assert all(one.holds for one in checked(as_it_is_to_be()))


FAULTS: dict[str, Callable[[Played], object]] = {
    "page that the invitation": lambda seen: setattr(seen, "chat_page", 404),
    "node is ready": lambda seen: setattr(seen, "ready", 503),
    "reached its reader": lambda seen: seen.told.update(reached=0),
    "stream of events": lambda seen: seen.events.clear(),
    "counted by /metrics": lambda seen: setattr(seen, "delivered", 0.0),
    "acknowledged with 201": lambda seen: setattr(seen, "answered", 2),
    "after kill -9": lambda seen: setattr(seen, "after_kill", 0),
    "waited for the reader": lambda seen: setattr(seen, "waiting", 2),
    "lost": lambda seen: seen.received.remove("1"),
    "came twice": lambda seen: seen.received.append("2"),
    "out of order": lambda seen: seen.received.sort(reverse=True),
    "router why": lambda seen: seen.why.clear(),
    "router audit": lambda seen: seen.audit.update(unaccounted=1),
}


@pytest.mark.parametrize("text", FAULTS)
def test_each_count_can_fail(text: str) -> None:
    seen = as_it_is_to_be()
    FAULTS[text](seen)
    [failed] = [one for one in checked(seen) if not one.holds]
    assert text in failed.text


def test_every_count_has_its_fault() -> None:
    assert len(list(checked(as_it_is_to_be()))) == len(FAULTS)
