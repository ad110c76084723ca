"""The output of `router lan list` for people, compared as text."""

from __future__ import annotations

from typing import Any

import pytest

from services.discovery import lan_commands

HERE = {"interface": "eth0", "network": "", "name": "", "addresses": ["10.0.0.1/24"], "allowed": False, "heard": 0}
NAMED = {**HERE, "network": "0123456789abcdef", "allowed": True, "heard": 2}
HEADS = "INTERFACE  ADDRESS      ALLOWED  NODES HEARD  NETWORK ID"


@pytest.mark.parametrize(
    ("mode", "networks", "problem", "said"),
    [
        ("allowed", [], "", ["this machine is in no local network"]),
        (
            "off", [], "",
            [
                "off: this node says nothing on local networks; `router lan on` allows the one it is in",
                "this machine is in no local network",
            ],
        ),
        (
            "everywhere", [NAMED], "",
            [
                "on everywhere: this node says that it is there on each local network", HEADS,
                "eth0       10.0.0.1/24  yes      2            0123456789abcdef",
            ],
        ),
        (
            "allowed", [HERE], "",
            [HEADS, "eth0       10.0.0.1/24  no       -            not known yet"],
        ),
        (
            "allowed", [], "nobody can listen at port 4101",
            ["this machine is in no local network", "nobody can listen at port 4101"],
        ),
    ],
)  # fmt: skip
def test_each_state_has_its_sentence(
    capsys: pytest.CaptureFixture[str], mode: str, networks: list[dict[str, Any]], problem: str, said: list[str]
) -> None:
    lan_commands._show({"mode": mode, "networks": networks, "problem": problem}, as_json=False)
    shown = capsys.readouterr()
    assert [line.rstrip() for line in (shown.out + shown.err).splitlines()] == said


@pytest.mark.parametrize("as_json", [True, False])
def test_who_has_taken_all_places_and_what_is_wrong_is_said_beside_the_list(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    full, problem = "all places are taken; look for it", "nobody can listen at port 4101"
    found = {"mode": "allowed", "networks": [NAMED], "problem": problem, "full": full}
    lan_commands._show(found, as_json=as_json)
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [full, problem] and "0123456789abcdef" in shown.out
