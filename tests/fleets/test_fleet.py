"""A fleet's logs are those that its nodes sealed, its truth matches them, and every possible fate of a message
occurs."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sabotage.ledger import Ledger, rows, unlike
from sabotage.logs import digest, segments
from samples.log_facts import read_log

from fleets.shared import SEGMENT_BYTES, Fleets
from fleets.writing import TRUTH, keys_of, log_directory, write_fleet

SHAPES = [(4, 400), (2, 400), (6, 400), (1, 300), (3, 600), (12, 500)]
LONG = 60
QUICK = [(4, 400, 0), (1, 300, 3), (10, 200, 0), (1, 100, 0)]
"""Nodes, messages and seed; other quick tests read all but the small last one, in which messages with no time to live
meet recipients that are away."""


def truth_of(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / TRUTH).read_text())
    return found


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/log/events-*.jsonl"))


def lines_of(directory: Path) -> list[dict[str, Any]]:
    return [row for path in logs(directory) for row in rows(path)]


@pytest.fixture(scope="module")
def some(fleets: Fleets) -> list[Path]:
    return [fleets(*shape) for shape in QUICK]


def test_every_log_is_good(some: list[Path]) -> None:
    for name, key in keys_of(some[0]).items():
        log = read_log(log_directory(some[0], name), key.public)
        assert log.problems == []
        assert log.evidence.logs[0].segments > 2


def _of_a_seed(seed: int) -> tuple[int, int, int]:
    return (*SHAPES[seed % len(SHAPES)], seed)


@pytest.mark.parametrize(
    "shape",
    [*QUICK, *(pytest.param(_of_a_seed(n), marks=pytest.mark.long) for n in range(LONG) if _of_a_seed(n) not in QUICK)],
)
def test_the_truth_is_what_the_lines_add_up_to(shape: tuple[int, int, int], fleets: Fleets) -> None:
    directory = fleets(*shape)
    truth = truth_of(directory)
    assert truth["residual"] == truth["unaccounted"] == truth["unknown"] == 0 < truth["messages"]
    assert unlike(truth, Ledger(logs(directory), {}, truth["as_of_ns"]).said()) == []


def test_all_that_happens_to_messages_happens(some: list[Path]) -> None:
    truths = [truth_of(one) for one in some]
    seen = {(row["event"], row["reason"], row["at_door"]) for truth in truths for row in truth["reasons"]}
    for state in ("delivered", "acked", "unconfirmed", "refused", "expired", "dropped", "pending"):
        assert sum(truth[state] for truth in truths), state
    assert sum(truth["redelivered"] for truth in truths) and sum(truth["deferred"] for truth in truths)
    assert seen >= {
        ("duplicate", "duplicate", True), ("expired", "ttl-expired", False), ("dropped", "left", False),
        ("deferred", "rate-limited", False), ("refused", "queue-full-recipient", False),
        ("refused", "recipient-offline-ttl0", False), ("refused", "bad-signature", True),
        ("refused", "not-authorised", True),
    }  # fmt: skip


def test_nodes_boot_again_and_neighbours_witness_heads_that_are_there(some: list[Path]) -> None:
    """Links, groups, routes and clocks change as well."""
    lines = [row for one in some for row in lines_of(one)]
    events = Counter(row["event"] for row in lines)
    assert events["start"] > sum(nodes for nodes, _, _ in QUICK)
    for event in ("stop", "config", "link_up", "link_down", "join", "leave", "route_add", "clock_step"):
        assert events[event], event
    found = [log for one in some for log in one.glob("*/log")]
    heads = {(one.router, one.last, digest(one.path)) for log in found for one in segments(log)}
    told = [row["fields"] for row in lines if row["event"] == "link" and "head_seq" in row["fields"]]
    assert told and {(one["peer"], one["head_seq"], one["head_digest"]) for one in told} <= heads


def test_the_same_seed_makes_the_same_bytes(fleets: Fleets, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_fleet(tmp_path / name, 2, 60, 3, segment_bytes=SEGMENT_BYTES)
    one, two, other = (
        sha256(b"".join(map(Path.read_bytes, logs(directory)))).digest()
        for directory in (tmp_path / "one", tmp_path / "two", fleets(2, 60, 4))
    )
    assert one == two != other
