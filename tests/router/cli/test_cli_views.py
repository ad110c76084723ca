"""`status`, `peers`, `queue`, `groups` of a running node, and without one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rigs.commands import Run, RunningNode

from router.cli import views
from router.cli.version import own_version
from router.cli.views import _overlay_text
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text

SOMEBODY = SigningKey(b"s" * 32).public


def test_status_has_the_contract_s_keys(at_node: Run, node: RunningNode) -> None:
    found = json.loads(at_node("status", "--json").stdout)
    assert found.keys() >= {
        "address", "role", "uptime_s", "listeners", "peers", "durability", "queue", "counters", "reasons",
    }  # fmt: skip
    assert found["queue"].keys() >= {"messages", "bytes"}
    assert found["pubsub"] is None, "this node runs no pub/sub service"
    assert found["counters"].keys() >= {"accepted", "delivered", "refused", "dropped", "expired"}
    assert found["address"] == node.ready["address"]
    assert found["listeners"] == node.ready["listeners"]


def test_status_for_people(at_node: Run, node: RunningNode) -> None:
    text = at_node("status").stdout
    assert key_text("addr", bytes.fromhex(node.ready["address"])) in text
    assert "tls://127.0.0.1:" in text and re.search(rf"^version +{re.escape(own_version())}$", text, re.MULTILINE)


def test_status_of_a_node_whose_program_was_replaced(at_node: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "own_version", lambda: "9.9")
    assert f"{own_version()}, and this command is 9.9: start the node anew" in at_node("status").stdout


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (None, ""),
        ({}, "no neighbours"),
        ({"ring": True}, "no neighbours"),
        ({"neighbours": 1, "ring": True, "copies": 7, "received": 7}, "1 neighbour, ring whole, 1 copy a message"),
        ({"neighbours": 1, "ring": True}, "1 neighbour, ring whole"),
        ({"ring": False, "copies": 29, "received": 10}, "no neighbours, ring not whole, 2.9 copies a message"),
        (
            {"neighbours": 3, "ring": True, "copies": 3, "repaired": 1_200, "missing": 4, "caught_up_s": 50_580},
            "3 neighbours, ring whole, 3 copies a message, 1,200 repaired, caught up 14:03 UTC, 4 missing",
        ),
    ],
)
def test_a_group_s_overlay_in_words(row: dict[str, object] | None, text: str) -> None:
    nothing = {
        "neighbours": 0, "ring": None, "received": 0, "copies": 0, "repaired": 0, "missing": 0, "caught_up_s": None,
    }  # fmt: skip
    assert _overlay_text(None if row is None else nothing | row) == text


@pytest.mark.parametrize("view", ["peers", "queue", "groups"])
def test_an_empty_view_is_an_empty_list(at_node: Run, view: str) -> None:
    assert isinstance(json.loads(at_node(view, "--json").stdout), list)
    assert at_node(view).exit_code == 0


def test_dropping_an_empty_queue(at_node: Run) -> None:
    found = json.loads(at_node("queue", "drop", SOMEBODY.hex(), "--json").stdout)
    assert found == {"recipient": SOMEBODY.hex(), "dropped": 0}
    assert at_node("queue", "drop", "somebody").exit_code == 2


def test_a_clock_is_told_and_confirmed(at_node: Run) -> None:
    assert json.loads(at_node("clock", "--json").stdout)["state"] == "believed"
    assert "believed" in at_node("clock").stdout and "clock" not in at_node("status").stdout, "nothing is wrong"
    assert "confirmed" in at_node("clock", "confirm").stdout
    assert json.loads(at_node("clock", "--json").stdout) | {"shown_ns": 0} == {
        "state": "confirmed", "shown_ns": 0, "ahead_s": 0.0, "problem": "",
    }  # fmt: skip
    assert at_node("clock", "forward").exit_code == 2


@pytest.mark.parametrize("view", ["status", "peers", "queue", "groups", "clock"])
def test_without_a_node_it_is_code_3(router: Run, home: Path, view: str) -> None:
    router("init")
    result = router(view, "--json")
    assert result.exit_code == 3
    assert f"start one with `router --home {home} serve`" in result.stderr
    assert result.stdout == ""
