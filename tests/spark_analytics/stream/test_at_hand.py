"""How much a run of a stream has to read is told from files alone."""

from __future__ import annotations

import os
from pathlib import Path

from spark_analytics.stream.at_hand import bytes_at_hand


def test_new_files_count_whole_and_earlier_ones_in_part(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    (logs / "a").mkdir(parents=True)
    (logs / "a" / "events-1.jsonl").write_bytes(bytes(8_000))
    (logs / "a" / "other").write_bytes(bytes(8_000))
    assert bytes_at_hand([str(logs)], str(out)) == 8_000
    note = out / "state" / "note-a"
    note.mkdir(parents=True)
    came_ns = (logs / "a" / "events-1.jsonl").stat().st_ctime_ns
    os.utime(note, ns=(came_ns, came_ns))
    assert bytes_at_hand([str(logs)], str(out)) == 1_000
    os.utime(note, ns=(came_ns - 1, came_ns - 1))
    assert bytes_at_hand([str(logs)], str(out)) == 8_000
    assert bytes_at_hand([str(tmp_path / "none")], str(out)) == 0
    assert bytes_at_hand(["s3a://logs"], str(out)) is None
