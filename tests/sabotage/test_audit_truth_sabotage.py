"""The audit's numbers are true, on clean logs and on damaged ones: nothing is overlooked, nothing invented."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from sabotage.ledger import Ledger, Row, unlike
from sabotage.liar import only_looks_so
from sabotage.saboteur import ALONE, SABOTAGES, TOGETHER, spoil
from sabotage.scene import Scene, copied
from spark_analytics.judgement.schema import STATES

LONG = 25
SHAPES = [(4, 400), (2, 400), (6, 400), (1, 300), (3, 600)]
"""Nodes and messages."""
ROUNDS_MAX = 4

Engine = Callable[[Path, int], dict[str, Any]]


def local(directory: Path, as_of_ns: int) -> dict[str, Any]:
    return audit(list_logs([directory]), AuditSpan(as_of_ns))


def seeds(*quick: int) -> list[Any]:
    return [pytest.param(seed, marks=() if seed in quick else pytest.mark.long) for seed in range(LONG)]


@pytest.fixture(scope="module")
def fleet(fleets: Fleets) -> Callable[[int], Path]:
    return lambda seed: fleets(*SHAPES[seed % len(SHAPES)], seed)


@pytest.fixture(scope="module")
def sound(fleet: Callable[[int], Path]) -> Callable[[int], tuple[Row, Row]]:
    """Return the truth about a fleet, and what its audit says."""

    @cache
    def told(seed: int) -> tuple[Row, Row]:
        truth = json.loads((fleet(seed) / TRUTH).read_text())
        return truth, local(fleet(seed), truth["as_of_ns"])

    return told


# -- clean logs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(0, 3))
def test_clean_logs_add_up_to_the_truth(seed: int, sound: Callable[[int], tuple[Row, Row]]) -> None:
    truth, found = sound(seed)
    assert differences(truth, found) == []
    assert found["problems"] == found["holes"] == found["files"] == found["broken"] == found["lost"] == []
    assert found["claims"] == []
    assert [one for one in found["findings"] if one["level"] == "bad"] == []
    assert all(log["whole"] and not log["problems"] for log in found["logs"])
    assert found["accepted_again"] == found["contradictions"] == found["strays"] == 0


@pytest.mark.parametrize("seed", seeds(0))
def test_the_truth_is_the_same_at_any_moment(seed: int, fleet: Callable[[int], Path]) -> None:
    """An audit as of an earlier time has the same numbers, and reports which lines lie in its future."""
    directory = fleet(seed)
    truth = json.loads((directory / TRUTH).read_text())
    early_ns = truth["as_of_ns"] - 10 * 60 * 10**9
    found = local(directory, early_ns)
    ledger = Ledger(sorted(directory.glob("*/log/events-*")), {}, early_ns)
    assert differences(ledger.said(), found) == []
    later = sum(row["t"] > early_ns for row in ledger.lines.values())
    assert sum(row["lines"] for row in found["future"]) == later > 0


@pytest.mark.parametrize("seed", seeds(0, 3))
def test_windows_and_clocks_are_right(seed: int, sound: Callable[[int], tuple[Row, Row]]) -> None:
    truth, found = sound(seed)
    step = found["step_minutes"]
    assert _by_window(found["windows"], "window", step) == _by_window(truth["minutes"], "minute", step)
    clocks = {one["router"]: one["clocks_ns"] for one in truth["by_router"]}
    for one in found["clocks"]:
        here, there = clocks[one["router"]], clocks[one["recipient"]]
        if len(here) == len(there) == 1:  # neither clock was set meanwhile
            assert one["lower_ns"] <= there[0] - here[0] <= one["upper_ns"]


def _by_window(rows: Iterable[Row], name: str, step: int) -> dict[int, Counter[str]]:
    """Return the units of all routers, by window and state."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        found[row[name] // step * step].update({state: row.get(state, 0) for state in ("owed", *STATES)})
    return found


# -- spoilt logs ------------------------------------------------------------------------------------------------------


@pytest.mark.long  # Several at once have their verdicts in the quick tests.
@pytest.mark.parametrize("seed", [0, *range(2, LONG, 5)])
@pytest.mark.parametrize("name", SABOTAGES)
def test_every_sabotage_has_its_verdict(name: str, seed: int, fleet: Callable[[int], Path], tmp_path: Path) -> None:
    scene = copied(fleet(seed), tmp_path / "logs", seed)
    SABOTAGES[name](scene)
    judge(scene, local(scene.directory, scene.as_of_ns))


@pytest.mark.parametrize("names", TOGETHER, ids="+".join)
def test_each_sabotage_has_its_verdict_beside_others(names: list[str], fleets: Fleets, tmp_path: Path) -> None:
    scene = copied(fleets(10, 200, 0), tmp_path / "logs", 0)
    spoil(scene, names)
    judge(scene, local(scene.directory, scene.as_of_ns))


@pytest.mark.long  # Chosen by chance; each is in one of the sets of the quick tests.
@pytest.mark.parametrize("seed", range(LONG))
def test_several_sabotages_at_once(seed: int, fleets: Fleets, tmp_path: Path) -> None:
    scene = copied(fleets(10, 400, seed), tmp_path / "logs", seed)
    spoil(scene, scene.chance.sample([name for name in SABOTAGES if name not in ALONE], ROUNDS_MAX))
    judge(scene, local(scene.directory, scene.as_of_ns))


def test_what_is_no_loss_is_not_called_one(fleets: Fleets, tmp_path: Path) -> None:
    scene = copied(fleets(10, 200, 0), tmp_path / "logs", 2)  # late deliveries at a router that owes nothing at its end
    spoil(scene, ["copied_elsewhere", "copied_beside", "pruned", "unknown_events", "late_deliveries"])
    found = local(scene.directory, scene.as_of_ns)
    assert found["verdict"] != "bad" and found["holes"] == found["lost"] == found["broken"] == []
    assert found["unknown"] == found["unaccounted"] == 0


def test_what_only_looks_like_a_claim_is_none(fleets: Fleets, tmp_path: Path) -> None:
    scene = copied(fleets(10, 200, 0), tmp_path / "logs", 0)
    only_looks_so(scene)
    assert local(scene.directory, scene.as_of_ns)["claims"] == []


def judge(scene: Scene, found: Row) -> None:
    """Check the numbers against the remaining lines, each file's status, and that the texts say what they must and no
    more."""
    expected = scene.expected()
    assert differences(expected, found) == []
    statuses = {Path(one["path"]): one["status"] for one in found["files"] if one["status"] != "pruned"}
    assert statuses == scene.statuses
    told = json.dumps([found[name] for name in ("problems", "holes", "logs", "findings")], ensure_ascii=False)
    assert [one for one in scene.says if one not in told] == []
    broken = sum(row["broken"] for row in expected["custody"])
    doubtful = set(scene.statuses.values()) & {"bad", "fork"}
    is_bad = bool(doubtful or broken or scene.level == "bad" or expected["unaccounted"] or expected["contradictions"])
    levels = {one["level"] for one in found["findings"]}
    assert ("bad" in levels) is is_bad, [one["text"] for one in found["findings"]]
    assert scene.level in ("", *levels)
    if expected["unknown"] or expected["duplicates"]:
        assert found["verdict"] != "good"
    holed = {router for router, firsts in scene.holes.items() if firsts}
    assert holed <= {one["router"] for one in found["holes"]}
    assert {log["router"] for log in found["logs"] if not log["whole"]} == {one["router"] for one in found["holes"]}


UNORDERED = ("reasons", "events", "abuse")


def differences(expected: Row, found: Row) -> list[str]:
    """Return the differences; rows of tables in any order, and only columns that both have."""
    one, other = dict(expected), dict(found)
    for name in UNORDERED:
        names = expected[name][0].keys() if expected[name] else ()
        one[name] = _sorted(expected[name])
        other[name] = _sorted({key: row[key] for key in names} for row in found[name])
    return unlike(one, other)


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [str(value) for _, value in sorted(row.items())])
