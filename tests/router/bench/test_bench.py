"""The bench on small numbers: its scenarios count what real nodes deliver, and its report says what was measured."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from router.bench import scenarios, traffic
from router.bench.goals import Goal, write_report
from router.bench.rig import workbench
from router.bench.scenarios import Bench, Shape
from router.bench.yardstick import Yardstick
from router.disk.store import Store
from router.disk.store_terms import StoreLimits

pytestmark = pytest.mark.xdist_group("bench")  # their cores listen on one port


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with workbench() as base:
        signed = traffic.make(base / "traffic", 400, 1024)
        yield Bench(base, Yardstick(10_000.0, 20_000.0, 100.0), signed)
    assert not base.exists()


def test_every_delivery_is_counted(bench: Bench) -> None:
    shape = Shape(publishers=2, subscribers=5, stalled=1, repeat=3, count=400)
    row = scenarios.throughput(bench, "tls", shape)
    assert (row["lost"], row["doubled"], row["refused"]) == (0, 0, 0)
    assert row["deliveries_per_s"] == pytest.approx(row["messages_per_s"] * 5 / 3)
    assert row["ratio_one_core"] == pytest.approx(row["messages_per_s"] / 10_000)
    assert row["messages_per_commit"] > 1
    assert min(row["cpu_us_per_message"], row["client_cpu_us_per_message"], row["rss_mib"]) > 0


def test_a_backlog_comes_back_whole_and_in_order(bench: Bench) -> None:
    row = scenarios.drain(bench, "unix", 400)
    assert (row["lost"], row["doubled"], row["out_of_order"]) == (0, 0, 0)


@pytest.mark.parametrize("program", ["router", "router.bench.unlogged"])
def test_a_node_without_a_log_delivers_and_writes_no_event(bench: Bench, program: str) -> None:
    apart = replace(bench, base=Path(tempfile.mkdtemp(dir=bench.base)), program=program)
    row = scenarios.throughput(apart, "unix", Shape(count=400))
    assert (row["lost"], row["doubled"]) == (0, 0)
    [home] = apart.base.iterdir()
    store = Store(home / "store", StoreLimits(), bytes(16))
    assert bool(store.log_values(0, 1)) == (program == "router")
    store.close()


def test_idle_links_and_latency_have_figures(bench: Bench) -> None:
    took = scenarios.latency(bench, "unix", 0.5)
    assert 0 < took["p50_ms"] <= took["p99_ms"] <= took["p999_ms"]
    assert scenarios.idle(bench, "unix", 20)["kib_per_link"] < 1024


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--publishers", "0"], "--publishers"),
        (["--messages", "3", "--publishers", "4"], "3 messages are too few for 4 publishers"),
        (["--report", "x.md"], "--report goes with --goals"),
        (["--drain", "1"], "--drain"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], said: str) -> None:
    ran = subprocess.run([sys.executable, "-m", "router", "bench", *words], capture_output=True, text=True)
    assert ran.returncode == 2
    assert said in ran.stderr


def test_the_report_stands_beside_the_goals(tmp_path: Path) -> None:
    fast, small = Goal("Fast", "rate", 2.0), Goal("Small", "size", 60.0, more=False)
    row = {"rate": 1.5, "size": 53.0}
    rows = [
        {"title": one.title, "value": row[one.figure], "goal": one.bound, "met": one.met(row[one.figure]), "row": row}
        for one in (fast, small)
    ]
    write_report(tmp_path / "measured.md", rows)
    text = (tmp_path / "measured.md").read_text()
    assert "| Fast | 1.500 | at least 2 | no |" in text
    assert "| Small | 53.000 | at most 60 | yes |" in text
    assert "- Fast: rate 1.500, size 53.000" in text
