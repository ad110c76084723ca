"""`sub --causal`: its output in lines and as JSON, with a journal and without."""

from __future__ import annotations

import json
from pathlib import Path

from rigs.commands import Run, RunningNode
from rigs.patience import HANG_S

from router import connect_blocking
from router.core.wire.text import key_text

GROUP = "causal"
WAITING = ("--timeout", str(HANG_S))


def test_causal_says_what_is_missing_and_goes_with_a_journal(at_node: Run, node: RunningNode, tmp_path: Path) -> None:
    """With a journal nothing is missing; without one, messages that an earlier run has handled are named as missing."""
    at_node("group", "new", GROUP)
    args = ("sub", GROUP, "--as", "bob", "--causal", "--journal", str(tmp_path / "journal"))
    assert at_node(*args, "--timeout", "0.01").exit_code == 5
    assert at_node("pub", GROUP, "one", "two", "--as", "ann").exit_code == 0
    both = at_node(*args, "--count", "2", "--json", *WAITING)
    assert [(one["body"], one["missing"], one["late"]) for one in map(json.loads, both.stdout.splitlines())] == [
        ("one", [], False), ("two", [], False),
    ]  # fmt: skip
    other = ("sub", GROUP, "--as", "new", "--causal")
    assert at_node(*other, "--timeout", "0.01").exit_code == 5
    with connect_blocking(home=node.home, as_name="new") as late:
        group = late.join(GROUP)
        assert at_node("pub", GROUP, "three", "four", "--as", "ann").exit_code == 0
        first = iter(group).next(HANG_S)
        assert first is not None and first.body == b"three"
        first.settle()
    printed = at_node(*other, "--count", "1", *WAITING)
    assert printed.stdout == "four\n"
    assert f"the next line follows what has not been printed: {key_text('msg', first.id)[:8]}" in printed.stderr
    assert at_node(*args, "--count", "2", *WAITING).stdout == "three\nfour\n"
    refused = at_node("sub", GROUP, "--raw", "--causal")
    assert refused.exit_code == 2 and "leave out --raw" in refused.stderr
