"""`router audit`: its output, its exit codes, and its messages about bad input."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rigs.commands import Run, start_node, stop_node
from samples.audit_logs import APP, LATE, Log

from router.cli import main

AS_OF = "2025-02-21"
KEYS = {
    "messages", "owed", "delivered", "acked", "unconfirmed", "expired", "refused", "dropped", "evicted", "pending",
    "unaccounted", "duplicates", "redelivered", "unknown", "watermark", "latency_ms", "logs", "residual",
}  # fmt: skip


@pytest.fixture
def bad_logs(tmp_path: Path) -> Path:
    log = Log()
    log.accepted(1, range(3))
    log.state("stop", LATE)
    return log.write(tmp_path / "bad")


def test_json_has_the_contract_s_keys(router: Run, logs: Path) -> None:
    result = router("audit", str(logs), "--json", "--as-of", AS_OF)
    found = json.loads(result.stdout)
    assert found.keys() >= KEYS and found["latency_ms"].keys() == {"p50", "p95", "p99", "max"}
    assert found["logs"][0].keys() >= {"router", "segments", "first", "last", "whole", "problems"}
    assert (found["delivered"], found["verdict"], result.stderr, result.exit_code) == (3, "good", "", 0)


def test_audit_needs_no_home_directory(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user is in no list of users, and has no HOME."""
    for name in ("HOME", "ROUTER_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    asked = ["audit", str(logs), "--as-of", AS_OF]
    result = CliRunner().invoke(main, asked)
    assert (result.exit_code, result.stderr) == (0, "") and result.stdout.startswith("Good")
    named = CliRunner().invoke(main, [*asked, "--home", "~/home"])
    assert named.exit_code and "choose another with --home" in named.stderr


def test_for_people_the_sum_is_spelled_out(router: Run, logs: Path) -> None:
    text = router("audit", str(logs), "--as-of", AS_OF).stdout
    assert text.startswith("Good")
    assert "3 = 3 delivered + 0 unaccounted" in text and "addr1" in text


def test_a_bad_verdict_fails_only_if_asked_to(router: Run, bad_logs: Path) -> None:
    assert router("audit", str(bad_logs), "--as-of", AS_OF).exit_code == 0
    result = router("audit", str(bad_logs), "--as-of", AS_OF, "--strict")
    assert (result.exit_code, result.stderr) == (1, "the verdict is bad\n")
    assert result.stdout.startswith("Bad") and "3 unaccounted" in result.stdout


def test_nothing_to_judge_fails_if_asked_to(router: Run, tmp_path: Path) -> None:
    (tmp_path / "truth.json").write_text("{}\n")
    asked = ("audit", str(tmp_path / "truth.json"), "--strict")
    result = router(*asked)
    assert result.exit_code == 1 and "no log could be judged" in result.stderr
    assert router(*asked[:-1]).exit_code == 0


def test_logs_that_end_before_the_time_asked_for_fail_if_asked_to(router: Run, logs: Path) -> None:
    asked = ("audit", str(logs), "--as-of", AS_OF, "--since", "1m")
    result = router(*asked, "--strict")
    assert result.exit_code == 1 and "nothing could be judged: no message of the time asked for" in result.stderr
    assert result.stdout.startswith("There is nothing to judge")
    assert router(*asked).exit_code == 0


def test_for_people_file_line_and_what_cannot_be_known_are_said(router: Run, logs: Path) -> None:
    [path] = logs.iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    text = router("audit", str(logs), "--as-of", AS_OF).stdout
    problems, _, limits = text.partition("\nproblems:\n")[2].partition("\nwhat these logs cannot show: ")
    assert f"  {path}:3: before this line is missing: event" in problems
    assert limits.startswith("2 sentences in ") and limits.endswith(" sentences in `--json` and `--out DIR`\n")


@pytest.mark.parametrize(
    ("arguments", "owed"),
    [
        (["--since", "2025-02-19"], 3),
        (["--since", "2025-02-19T21:20:01"], 0),
        (["--until", "2025-02-19T22:20+01:00"], 0),
        (["--since", "3h"], 3),
        (["--since", "2h"], 0),
    ],
)
def test_the_time_asked_for(router: Run, logs: Path, arguments: list[str], owed: int) -> None:
    result = router("audit", str(logs), "--json", "--as-of", "2025-02-20T00:00", *arguments)
    assert json.loads(result.stdout)["owed"] == owed


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "PATH"),
        (["gone"], 2, "'gone' does not exist"),
        (["empty"], 1, "no event log here"),
        (["log", "--since", "yesterday"], 2, "'yesterday' is no time"),
        (["log", "--since", "1d", "--until", "2d"], 2, "--since must lie before --until"),
        (["log", "--memory", "lots"], 2, "'lots' is no size"),
        (["log", "--memory", "1MB"], 2, "at least 256MB"),
        (["log", "--out", "taken"], 1, "letter.txt"),
    ],
)
def test_what_cannot_be_done_is_said(
    router: Run, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").touch()
    monkeypatch.chdir(tmp_path)
    result = router("audit", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr and "Traceback" not in result.stderr


def test_files_that_are_no_logs_are_told_of(router: Run, logs: Path) -> None:
    (logs / "events-0000000000000090.jsonl").touch()
    (logs / "events-0000000000000091.jsonl").write_bytes(os.urandom(3000))
    (logs / "events-0000000000000092.jsonl").mkdir()
    (logs / "notes.txt").write_text("hello\n")
    result = router("audit", str(logs), str(logs / "notes.txt"), "--json", "--as-of", AS_OF)
    found = json.loads(result.stdout)
    assert (found["delivered"], result.exit_code) == (3, 0)
    assert {Path(file["path"]).name for file in found["files"]} == {
        "events-0000000000000090.jsonl", "events-0000000000000091.jsonl", "notes.txt",
    }  # fmt: skip


def test_out_writes_the_tables(router: Run, logs: Path, tmp_path: Path) -> None:
    result = router("audit", str(logs), "--out", str(tmp_path / "out"), "--memory", "512MiB", "--json")
    assert result.exit_code == 0
    assert {"delivery.parquet", "message.parquet", "summary.json", "report.html"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }


def test_a_running_node_s_newest_events_count(home: Path, router: Run) -> None:
    process, ready = start_node(home, "--verifiers", "0")
    router("send", "me", "hello", "--ttl", "60")
    found = json.loads(router("audit", str(home), "--json").stdout)
    assert stop_node(process) == 0
    assert [log["router"] for log in found["logs"]] == [ready["address"]]
    assert found["logs"][0]["last"] > 0 and found["logs"][0]["whole"]
    assert [file["status"] for file in found["files"]] == ["tail"]
    assert (found["future"], found["verdict"]) == ([], "good")


def test_nothing_heavy_is_loaded_before_it_runs() -> None:
    code = "import sys, router.audit.command; print({'duckdb', 'rich', 'lmdb'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_one_screen(router: Run, logs: Path) -> None:
    lines = router("audit", str(logs), "--as-of", AS_OF).stdout.splitlines()
    assert len(lines) < 24 and APP not in lines[0]


def test_another_audit_s_logs_are_compared_by_its_summary(router: Run, logs: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.json"
    summary = json.loads(router("audit", str(logs), "--json", "--as-of", AS_OF).stdout)
    theirs.write_text(json.dumps(summary))
    [head] = summary["heads"]
    same = router("audit", str(logs), "--as-of", AS_OF, "--compare", str(theirs))
    assert same.exit_code == 0 and "judged the same logs as are given here" in " ".join(same.stdout.split())
    theirs.write_text(json.dumps({**summary, "heads": [{**head, "digest": "0" * 64}]}))
    other = router("audit", str(logs), "--json", "--as-of", AS_OF, "--compare", str(theirs), "--strict")
    found = json.loads(other.stdout)
    assert (other.exit_code, found["verdict"]) == (1, "bad")
    assert [row["result"] for row in found["compared"]] == ["other"]
    assert "has two histories" in found["findings"][0]["text"]
    refused = router("audit", str(logs), "--compare", str(logs))
    assert refused.exit_code == 1 and "name its summary.json" in refused.stderr
    theirs.write_text(json.dumps({**summary, "heads": [{**head, "event": head["event"] + 7}]}))
    beyond = json.loads(router("audit", str(logs), "--json", "--as-of", AS_OF, "--compare", str(theirs)).stdout)
    [told] = [one for one in beyond["findings"] if "judged logs that go further" in one["text"]]
    assert f"(there to event {head['event'] + 7}, here to {head['event']})" in told["text"] and told["level"] == "info"
    assert "cannot be told from here" in told["text"]
    assert told["remedy"].startswith(f"Let whoever wrote {theirs} compare with the summary.json of this audit")
