"""The demo keeps its promises, leaves nothing behind, and would notice a failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from rigs.left_processes import processes
from rigs.patience import HANG_S

from router.demo.counts import BookCounts, DemoCounts, DiskWords, compare, search

DEMO = (sys.executable, "-m", "router", "demo")
AWAY = 300
WELL = BookCounts("edge B", 3, 0, 0, 0, 0, 1)


def environment(directory: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(directory)}


def test_everything_arrives_once(tmp_path: Path) -> None:
    command = (*DEMO, "--json", "--messages", str(AWAY))
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, env=environment(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["ok"] and not found["failures"]
    assert found["published"] == found["acknowledged"] == 100 + AWAY
    assert (found["lost"], found["doubled"], found["out_of_order"]) == (0, 0, 0)
    assert [(one["where"], one["received"]) for one in found["apps"]] == [
        ("edge B", 100 + AWAY), ("the core", 100 + AWAY),
    ]  # fmt: skip
    assert found["waited_for_b"] >= AWAY and found["acknowledged_without_core"] >= AWAY // 8
    assert found["queued"] == {"edge A": 0, "the core": 0, "edge B": 0}
    began_s, ended_s = found["core_away_s"]
    assert ended_s > began_s and all(found["latency_ms"][part]["p50"] > 0 for part in ("all_up", "kept"))
    delayed, refused = found["why"]
    assert delayed["about"] == "delayed" and "acked, " in delayed["text"] and "has taken custody" in delayed["text"]
    assert refused["about"] == "refused" and "refused (no-route)" in refused["text"]
    audit = found["audit"]
    assert (audit["residual"], audit["unaccounted"], audit["unknown"]) == (0, 0, 0)
    assert (audit["delivered"], audit["refused"], len(audit["logs"])) == (2 * (100 + AWAY), 1, 3)
    assert found["core_disk"]["words"] == 0 < found["core_disk"]["keys"]
    assert not list(tmp_path.iterdir()) and not processes(tmp_path)


APPS, KILLED = "An app on each node signs on", "Edge B and its app are killed"


@pytest.mark.long  # Plays the demo once more; that it ends all that it started is shown above.
@pytest.mark.parametrize(
    ("number", "after"),
    [(signal.SIGINT, APPS), (signal.SIGTERM, KILLED)],
)
def test_ctrl_c_ends_all_of_it(number: signal.Signals, after: str, tmp_path: Path) -> None:
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)) as process:
        assert process.stdout is not None
        told = next(line for line in process.stdout if line.startswith(after))
        assert after == APPS or "1,000" in told
        assert len(processes(tmp_path)) >= 3
        process.send_signal(number)
        assert process.wait(HANG_S) == 130
    assert not list(tmp_path.iterdir()) and not processes(tmp_path)


@pytest.mark.long
def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        (*DEMO, "--messages", "50000"), stdout=subprocess.PIPE, text=True, env=environment(tmp_path)
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.startswith("An app on each node signs on"))
        next(line for line in process.stdout if "receive them" in line)
        assert len(processes(tmp_path)) >= 3  # the core, edge A and its app at least
        process.kill()
    give_up_s = time.monotonic() + HANG_S
    while processes(tmp_path):
        assert time.monotonic() < give_up_s, processes(tmp_path)


def test_what_is_in_order_is_no_failure() -> None:
    assert compare("edge B", ["a", "b", "c"], ["c", "a", "b"], [1, 2, 3], 1) == WELL
    assert WELL.failures() == []
    audit = {"verdict": "good", "delivered": 3}
    assert DemoCounts(3, 3, heard=[WELL], queued={"edge A": 0}, disk=DiskWords(9, 0, 1), audit=audit).failures() == []


@pytest.mark.parametrize(
    ("acknowledged", "ids", "numbers", "wrong"),
    [
        ("abc", "ab", [1, 2], "1 lost"),
        ("ab", "ab", [1, 2, 2], "1 doubled"),
        ("abc", "abc", [2, 1, 3], "1 out of order"),
        ("a", "ab", [1, 2], "1 that nobody acknowledged"),
    ],
)
def test_what_an_app_lacks_or_has_too_much(acknowledged: str, ids: str, numbers: list[int], wrong: str) -> None:
    assert compare("edge B", acknowledged, ids, numbers, 0).failures() == [f"the app on edge B: {wrong}"]


def test_everything_else_that_would_be_wrong() -> None:
    lost = replace(WELL, lost=2)
    counts = DemoCounts(
        5, 4, heard=[lost], queued={"edge A": 7, "edge B": 0}, disk=DiskWords(9, 3, 0), tracebacks=["edge B"]
    )
    counts.audit = {"verdict": "bad", "delivered": 4}
    said = "; ".join(counts.failures())
    for words in (
        "edge B: 2 lost", "5 messages were published and 4 acknowledged", "7 messages are left in the queues of edge A",
        "on the core's disk, 3 times", "did not even find the group's key", "edge B printed a traceback",
        "the audit counts 4 deliveries, the books 3", "the audit's verdict is bad",
    ):  # fmt: skip
        assert words in said


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "data").write_bytes(b"..words..key..words")
    (tmp_path / "data").write_bytes(b"key")
    assert search([tmp_path], b"words", b"key") == DiskWords(22, 2, 2)
