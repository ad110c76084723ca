"""How soon those who meet hear each other: the verdicts on given times, the report, and one real round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from router.bench.first_messages import WAYS, Row, Say, Way, cells, first_messages
from router.bench.report import write_first_messages
from router.cli import main
from router.demo.processes import Stage


def way(seconds: list[float], median_s: float | None, longest_s: float | None, why: str = "") -> Way:
    """Return a way to meet whose rounds take these times."""

    async def play(stage: Stage, say: Say, number: int) -> float:
        assert stage.base.is_dir()
        return seconds[number]

    return Way("By post", median_s, longest_s, play, lambda: why)


def measured(tmp_path: Path, *ways: Way) -> list[Row]:
    said = list[str]()
    rows = first_messages(tmp_path, 3, said.append, ways)
    assert not list(tmp_path.iterdir()), "each round takes its directory with it"
    assert len(said) == 3 * sum(not one.why_not() for one in ways)
    return rows


@pytest.mark.parametrize(
    ("median_s", "longest_s", "goal", "met"),
    [
        (2.0, None, "median at most 2 s", True),
        (1.9, 9.0, "median at most 1.9 s, longest at most 9 s", False),
        (None, 9.0, "longest at most 9 s", True),
        (2.0, 8.9, "median at most 2 s, longest at most 8.9 s", False),
    ],
)
def test_the_median_and_the_longest_round_are_judged(
    tmp_path: Path, median_s: float | None, longest_s: float | None, goal: str, met: bool
) -> None:
    [row] = measured(tmp_path, way([9.0, 1.0, 2.0], median_s, longest_s))
    assert (row["median_s"], row["longest_s"], row["seconds"]) == (2.0, 9.0, [9.0, 1.0, 2.0])
    assert (row["goal"], row["met"]) == (goal, met)
    assert cells(row) == ("By post", "2.00 s, 9.00 s", goal, "yes" if met else "no")


def test_a_way_that_cannot_be_played_stands_in_the_report_with_the_reason(tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    homes.mkdir()
    rows = measured(homes, way([1.0, 1.0, 1.5], 2.0, None), way([], 2.0, None, "no post on Sundays"))
    report = tmp_path / "measured.md"
    write_first_messages(report, rows, map(cells, rows))
    text = report.read_text()
    assert "3 rounds by each way" in text and "- By post: 1.00, 1.00, 1.50\n" in text
    assert "| By post | 1.00 s, 1.50 s | median at most 2 s | yes |" in text
    assert "| By post |  | median at most 2 s | left out: no post on Sundays |" in text


def test_the_goals_are_those_that_were_set() -> None:
    found: list[tuple[float | None, float | None]] = [(one.median_s, one.longest_s) for one in WAYS]
    assert found == [(5.0, 15.0), (3.0, None), (None, 10.0)]


@pytest.mark.long  # meets three times
def test_nodes_meet_by_each_way(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["bench", "--meet", "1", "--json"])
    assert ran.exit_code == 0, ran.output
    for row in json.loads(ran.stdout):
        assert row["verdict"].startswith("left out") or row["longest_s"] > 0
