"""The measurement of the stream: its load is as announced, and its figures are those of the batches."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from router.audit import engine
from router.audit.listing import list_logs
from router.core.wire.lifetime import SECOND_NS as SECOND
from scale.stream_rate import LINES, TTL_S, Batch, Load, bring, figures, followed, measured, written

LOAD = Load(rate=4000, open_=2000, seconds=2, batch=10, pairs=2, segment_s=0.5)


@pytest.mark.long
def test_what_is_brought_has_its_rate_and_its_open_messages(tmp_path: Path) -> None:
    begin_ns, segments = written(LOAD, tmp_path)
    late = [segment for segment in segments if segment.last_ns >= begin_ns]
    assert 0.9 * LOAD.rate * LOAD.seconds <= sum(segment.events for segment in late) <= LOAD.rate * LOAD.seconds
    assert sum(segment.lines for segment in late) * 4 * LOAD.batch == sum(segment.events for segment in late) * LINES
    bring([segment for segment in segments if segment.last_ns < begin_ns])
    there = list_logs([tmp_path / "logs"])
    assert engine.audit(there, engine.AuditSpan(begin_ns))["pending"] == LOAD.open_
    bring(late)
    assert time.time_ns() >= segments[-1].last_ns
    summary = engine.audit(list_logs([tmp_path / "logs"]), engine.AuditSpan(time.time_ns()))
    due_s = [queue["oldest_due_s"] for queue in summary["queues"]]
    assert due_s and all(TTL_S - 60 <= one <= TTL_S for one in due_s)  # Nothing is over while it is measured.
    batches = [Batch(n, len(segments) * n // 5, n * SECOND, float(n), n + 1.0) for n in range(1, 6)]
    found = figures(LOAD, segments, batches, summary)
    assert found["agrees"] and found["open"] == LOAD.open_
    assert found["batches"] == 2
    assert found["behind_s"] == {"median": 4.5, "worst": 5.0}
    assert found["watermark_s"] == {"median": 5.5, "worst": 6.0}
    covered = segments[batches[2].files :]
    assert found["events_s"] == sum(segment.events for segment in covered) / 2
    assert not figures(LOAD, segments, batches, summary | {"pending": 0})["agrees"]


def test_a_batch_is_as_far_behind_as_the_newest_event_that_it_covers(tmp_path: Path) -> None:
    _, segments = written(LOAD, tmp_path)
    (tmp_path / "out" / "summary.json").mkdir(parents=True)
    (tmp_path / "out" / "summary.json" / "part-0").write_text(json.dumps({"watermark": "1970-01-01T00:00:00+00:00"}))
    lines = ["batch 7: 2 new files of 3\n", "batch 7: good after 1.5 s\n"]
    [batch] = followed(lines, segments, tmp_path / "out")
    assert (batch.number, batch.files) == (7, 3)
    assert batch.behind_s == (batch.done_ns - segments[2].last_ns) / SECOND
    assert batch.watermark_s == pytest.approx(batch.done_ns / SECOND)


@pytest.mark.long
def test_a_stream_that_is_told_to_end_does_so_when_it_has_read_everything(tmp_path: Path) -> None:
    found = measured(LOAD, 1, tmp_path)
    assert found["agrees"] and found["memory_mib"]["java"] > 0
