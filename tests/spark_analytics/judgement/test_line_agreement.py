"""Signed lines of every kind, sound and damaged: each is counted by both engines, or its file is bad in both."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from samples.audit_logs import LATE, SECOND, START, Log, audited
from samples.growing_logs import said
from samples.lines import samples

from router.audit import spark as fleet
from router.audit.engine import AuditSpan, evidence_of
from router.audit.listing import list_logs
from router.core.log.line import encode_lines
from router.core.log.segment import SegmentTotals, file_name, header, sign
from router.core.wire.crypto import SigningKey
from spark_analytics.judgement.line_grammar import columns_fit, is_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT, COUNT_BY_BOTH = 150, 120
TOLD = ("event", "seq", "n", "count")
"""The fields of a line that a footer sums up."""


def write(directory: Path, seed: int, count: int = COUNT) -> dict[str, bool | None]:
    """Write a log of two lines for each sample, by a router of its own. Return by file whether its lines are valid;
    None if they are, but do not match the footer."""
    found: dict[str, bool | None] = {}
    for number, (line, data) in enumerate(samples(seed, count)):
        key = SigningKey(number.to_bytes(32, "big"))
        log = Log(key)
        log.state("start", 0)
        name = key.public.hex()
        mine = data.replace((line.router or "").encode(), name.encode())
        tally = SegmentTotals(1)
        written = encode_lines([header(log.lines[0], None), *log.lines]) + mine + b"\n"
        for row in (*log.lines, line):
            tally.note(row)
        tally.digest = sha256(written)
        path = directory / f"{number:04d}" / file_name(1)
        path.parent.mkdir(parents=True)
        path.write_bytes(written + encode_lines([sign(tally.footer(name, None), key)]))
        found[str(path)] = is_line(mine) and _fits(mine, name)
        if found[str(path)] and [json.loads(mine).get(one) for one in TOLD] != [getattr(line, one) for one in TOLD]:
            found[str(path)] = None
    return found


def _fits(data: bytes, router: str) -> bool:
    row = json.loads(data)
    is_frame = row["event"] in ("segment", "seal")
    return is_frame or (row["router"] == router and (row["event"] != "accepted" or columns_fit(row)))


@pytest.mark.parametrize("seed", [1])
def test_the_local_engine_goes_by_the_grammar(seed: int, tmp_path: Path) -> None:
    sound = write(tmp_path, seed)
    found = audited(tmp_path)
    bad = {file["path"] for file in found["files"] if file["status"] == "bad"}
    assert {path for path, is_sound in sound.items() if is_sound is False} <= bad
    assert not {path for path, is_sound in sound.items() if is_sound} & bad
    told = {problem.path for problem in evidence_of(list_logs([tmp_path]))[0].problems if problem.line}
    assert {path for path in bad if not is_line(Path(path).read_bytes().split(b"\n")[2])} <= told


@pytest.mark.long  # Both engines agree on spoilt logs of every kind in test_tables.
@pytest.mark.xdist_group("spark")
def test_both_engines_count_the_same_lines(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 2, COUNT_BY_BOTH)
    for name in (file_name(9), "tail-9.jsonl", "pruned.jsonl"):
        (tmp_path / "0000" / name).write_bytes(b"\n" * 1_000)
    local = said(audited(tmp_path))
    assert local["problems_more"] > 0
    by_spark = said(fleet.audited(spark, list_logs([tmp_path]), AuditSpan(START + LATE * SECOND)))
    assert {name for name in local if local[name] != by_spark.get(name)} == set()
