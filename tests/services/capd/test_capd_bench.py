"""`router capd bench`: its rows, and the side of its bound on which a goal is met."""

from __future__ import annotations

import json
from dis import get_instructions
from inspect import iscoroutinefunction
from pathlib import Path

from click.testing import CliRunner

from router.bench.goal import Goal
from router.cli import main
from services.capd.bench.scenarios import SCENARIOS


def test_bench_command_reports_each_figure_beside_its_goal(tmp_path: Path) -> None:
    report = tmp_path / "measured.md"
    arguments = ("--only", "codec", "--only", "standing", "--messages", "10000", "--report", str(report), "--json")
    result = CliRunner().invoke(main, ["capd", "bench", *arguments])
    assert result.exit_code == 0, result.output
    codec, standing = json.loads(result.stdout)
    assert (
        codec["goal"] == "at least 1.8" and codec["met"] is (codec["value"] >= 1.8) and " against " in codec["remark"]
    )
    assert standing["title"] == "A message against 10,000 standing queries: times a loop"
    assert "## The CAPD pool" in report.read_text() and f"| {standing['title']} |" in report.read_text()


def test_what_never_waits_is_not_played_in_trio_where_no_signal_would_end_it() -> None:
    waits = {
        name: any(one.opname == "GET_AWAITABLE" for one in get_instructions(act)) for name, act in SCENARIOS.items()
    }
    assert waits == {name: iscoroutinefunction(act) for name, act in SCENARIOS.items()}


def test_goal_is_met_on_its_side_of_the_bound() -> None:
    assert [Goal("", value, 2.0).met for value in (1.9, 2.0)] == [False, True]
    assert [Goal("", value, 2.0, more=False).met for value in (2.0, 2.1)] == [True, False]
    assert Goal("", 1.0).met is None and Goal("", 1.0).bound == "" and Goal("", 1, 2, more=False).bound == "at most 2"
