"""The measurements of large fleets: the logs have the shape that was asked for, and the figures are read aright."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from router.audit import engine
from router.audit.listing import list_logs
from scale.alarm_delay import Batches, Loser, told_in
from scale.fleet_audit import link
from scale.shaped_logs import END_NS, WAITING, Shape, write_shape
from scale.spark_events import with_events, work_in


@pytest.mark.parametrize(
    "shape", [Shape(8_000, files=80), Shape(8_000, files=80, days=3), Shape(8_000, files=200, first=0.9, one=0.99)]
)
def test_logs_have_the_shape_that_was_asked_for(shape: Shape, tmp_path: Path) -> None:
    write_shape(shape, tmp_path)
    summary = engine.audit(list_logs([tmp_path]), engine.AuditSpan(END_NS))
    assert (summary["verdict"], summary["pending"]) == ("good", WAITING * shape.batch)
    lines = Counter[str]()
    for row in (one for one in summary["events"] if one["event"] != "link_up"):
        lines[row["router"]] += row["lines"]
    assert lines.total() == pytest.approx(shape.lines, rel=0.1)
    assert max(lines.values()) / lines.total() == pytest.approx(shape.first or 1 / shape.routers, abs=0.03)
    texts = [path.read_text() for path in tmp_path.rglob("events-*.jsonl")]
    assert shape.files * 0.75 <= len(texts) <= shape.files + shape.routers
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    destinations = Counter(row["destination"] for row in rows if row["event"] == "accepted")
    assert destinations.most_common(1)[0][1] / destinations.total() > shape.one - 0.05


def test_the_work_of_spark_is_added_up(tmp_path: Path) -> None:
    around = with_events(tmp_path / "spark")
    assert around["SPARK_CONF_DIR"] == str(tmp_path / "spark")
    ended = {"Event": "SparkListenerTaskEnd"}
    metrics = {
        "Executor Run Time": 1500,
        "Disk Bytes Spilled": 3,
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 7},
    }
    lines = [{"Event": "SparkListenerJobStart"}, ended | {"Task Metrics": metrics}, ended]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (tmp_path / "spark" / "events" / "local-1").write_text(text)
    work = work_in(tmp_path / "spark")
    assert (work.tasks, work.shuffled, work.spilled, work.tasks_s, work.longest_s) == (2, 7, 3, 1.5, 1.5)


def test_batches_until_an_alarm_is_raised_are_counted() -> None:
    batches = Batches()
    batches.read(["batch 0: good after 1 s\n", "alarm raised: the router ab\n", "batch 1: bad after 1 s\n"])
    batches.ends_ns = [10, 20]
    assert batches.since(5, "ab") == 2, "the batch that was at work when the segment came, and the one after it"
    assert batches.since(15, "ab") == 1


def test_a_loser_loses_one_message_and_what_is_told_of_it_is_read(tmp_path: Path) -> None:
    loser = Loser(tmp_path / "logs", 1)
    loser.accept()
    since_ns = loser.lose()
    summary = engine.audit(list_logs([tmp_path / "logs"]), engine.AuditSpan(since_ns))
    assert (summary["owed"], summary["dropped"]) == (1, 1)
    alarm = {"finding": "ended-badly", "change": "raised", "router": loser.router}
    other = {"finding": "overdue", "change": "raised", "router": loser.router}
    assert told_in(tmp_path / "told") == {}
    (tmp_path / "told").write_text("".join(f"{n}\n{json.dumps(one)}\n" for n, one in enumerate((other, alarm))))
    assert told_in(tmp_path / "told") == {loser.router: 1}


def test_files_appear_at_their_own_names(tmp_path: Path) -> None:
    (tmp_path / "a" / "log").mkdir(parents=True)
    (tmp_path / "a" / "log" / "events").write_text("x")
    link([tmp_path / "a" / "log" / "events"], tmp_path, tmp_path / "there")
    assert (tmp_path / "there" / "a" / "log" / "events").read_text() == "x"
