"""`router audit-sample` as a command."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from router.cli import main
from router.cli.exits import Exit


def test_logs_and_truth_are_written_and_counted(tmp_path: Path) -> None:
    out = tmp_path / "fleet"
    done = CliRunner().invoke(main, ["audit-sample", "--nodes", "3", "--messages", "90", "--out", str(out), "--json"])
    assert done.exit_code == Exit.DONE, done.output
    said = json.loads(done.output)
    files = list(out.glob("*/log/events-*.jsonl"))
    assert (said["nodes"], said["segments"]) == (3, len(files))
    assert said["bytes"] == sum(path.stat().st_size for path in files)
    assert json.loads((out / "truth.json").read_text())["messages"] == 90


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    done = CliRunner().invoke(main, ["audit-sample", "--out", str(tmp_path)])
    assert done.exit_code == Exit.USAGE and "is not empty" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
