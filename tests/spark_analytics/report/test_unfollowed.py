"""Reasons why messages handed over are missing from the next router's log; a log that is still growing raises no
alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples.audit_logs import A, B, Log, audited, name

from spark_analytics.judgement.lives import RESTORED
from spark_analytics.report.unfollowed import unfollowed

HOUR = 3600
DAY = 24 * HOUR


def logs(directory: Path, handed: list[int], ends: int) -> list[Path]:
    """Return A's log, which hands a message to B at each of these seconds and goes on for an hour, and B's, which ends
    at `ends`."""
    here, there = Log(A), Log(B)
    there.state("start", -1)
    for number, at in enumerate(handed, 1):
        here.accepted(number, [number], [name(B)], at=at)
        here.outward("acked", [(number, 1)], at=at + 4, recipient=name(B), parcel=number)
        if at < ends:
            there.accepted(number, [number], at=at + 2)
            there.outward("delivered", [(number, 1)], at=at + 3, parcel=number)
    here.accepted(99, [99], at=handed[-1] + HOUR)
    here.outward("delivered", [(99, 1)], at=handed[-1] + HOUR, parcel=99)
    return [here.write(directory / "a"), there.write(directory / "b")]


@pytest.mark.parametrize(
    ("ends", "unknown", "level"),
    [
        (1, 3, "warning"),  # what it took over two days ago and one day ago is not there
        (DAY + 1, 2, "info"),  # what it took over less than a day ago need not be sealed yet
        (2 * DAY, 1, "info"),
    ],
)
def test_it_is_an_alarm_only_if_the_end_should_have_been_there(
    tmp_path: Path, ends: int, unknown: int, level: str
) -> None:
    found = audited(*logs(tmp_path, [0, DAY, 2 * DAY - HOUR, 2 * DAY], ends), at=3 * DAY)
    assert [row["unknown"] for row in found["custody"]] == [unknown]
    [finding] = [row for row in found["findings"] if "(acknowledged)" in row["text"]]
    assert finding["level"] == level
    assert f"in the log of {name(B)}, which ends before" in finding["text"]
    assert finding["remedy"] == f"Ask {name(B)} for its newest log, or name its home, and audit again."
    assert found["verdict"] == ("attention" if level == "warning" else "good")


def test_a_queue_that_is_not_told_of_gives_no_alarm(tmp_path: Path) -> None:
    """Of very many queues only the longest are in the summary."""
    found = audited(*logs(tmp_path, [0, DAY, 2 * DAY], 1), at=3 * DAY)
    [pair] = found["custody"]
    assert unfollowed(found, pair).level == "warning"
    others = [queue for queue in found["queues"] if queue["recipient"] != name(B)]
    assert unfollowed(found | {"queues": others}, pair).level == "info"


@pytest.mark.parametrize(
    ("why", "remedy"), [(RESTORED, "Nothing can be given"), ("a file is missing", "Give the missing")]
)
def test_no_file_is_asked_for_that_a_restored_router_lacks(why: str, remedy: str, tmp_path: Path) -> None:
    found = audited(*logs(tmp_path, [0, DAY, 2 * DAY], 1), at=3 * DAY)
    [pair] = found["custody"]
    logs_of = [log | {"whole": log["router"] != name(B)} for log in found["logs"]]
    holes = [
        {"router": name(B), "first_seq": 5, "last_seq": 9, "why": f"restored on X from a snapshot of Y; {RESTORED}"}
    ]
    holes.append(holes[0] | {"why": f"in short: {why}"})
    said = unfollowed(found | {"logs": logs_of, "holes": holes}, pair)
    assert (said.level, said.remedy.startswith(remedy)) == ("info", True), said
