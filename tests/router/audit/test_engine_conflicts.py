"""What a log says that cannot be, or that nobody else bears out, is told, though its router signed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from audit_logs import APP, START, Log, audited, name, states

from router.disk.eventlog import Limits, Segments

DAY_S = 86_400


def told(found: dict[str, Any], level: str) -> str:
    """What is said at that level, in one text."""
    return "\n".join(f"{row['text']} {row['remedy']}" for row in found["findings"] if row["level"] == level)


# -- under way for ever -----------------------------------------------------------------------------------


def in_flight(log: Log, end_s: int) -> None:
    log.state("start")
    log.state("link_up", peer=APP, link=2)
    log.accepted(1, range(3))
    log.outward("forwarded", [(1, 3)])
    log.state("join", end_s)


def test_in_flight_for_weeks_after_its_time_is_told(tmp_path: Path) -> None:
    log = Log()
    in_flight(log, 29 * DAY_S)
    found = audited(log.write(tmp_path), at=30 * DAY_S)
    assert states(found) == {"owed": 3, "pending": 3}
    assert found["verdict"] == "attention"
    [row] = found["overdue"]
    assert (row["count"], row["recipients"], row["seq"], row["parcel"]) == (3, 1, 3, 1)
    assert row["due_ns"] == START + 60 * 10**9 and row["file"].endswith("events-0000000000000001.jsonl")
    assert "3 deliveries under way" in told(found, "warning") and APP in told(found, "warning")


def test_in_flight_for_an_hour_is_not_told_nor_what_the_audit_is_too_early_for(tmp_path: Path) -> None:
    for number, (end_s, at_s) in enumerate(((3600, 30 * DAY_S), (29 * DAY_S, 3600))):
        log = Log()
        in_flight(log, end_s)
        assert audited(log.write(tmp_path / str(number)), at=at_s)["overdue"] == []


def test_pending_under_a_doubted_clock_or_a_new_start_is_told(tmp_path: Path) -> None:
    for event, is_doubted in (("clock_step", True), ("start", False)):
        log = Log()
        log.accepted(1, range(2))
        log.state(event, 29 * DAY_S, **({"by_s": 7200, "doubted": True} if is_doubted else {}))
        found = audited(log.write(tmp_path / event), at=30 * DAY_S)
        assert states(found) == {"owed": 2, "pending": 2}, event
        assert found["verdict"] == "attention" and found["overdue"][0]["is_doubted"] is is_doubted
        assert ("doubts its clock" in told(found, "warning")) is is_doubted


# -- what was pruned --------------------------------------------------------------------------------------


def pruned(log: Log, directory: Path, cuts: list[int], keep: int) -> Path:
    """The log in segments, of which the last `keep` are left, beside the footers of the others."""
    log.write(directory, cuts)
    sizes = [path.stat().st_size for path in sorted(directory.glob("events-*"))]
    left = sum(sizes[len(sizes) - keep :]) if keep else 0
    assert Segments(directory, log.key, Limits()).prune(0.0, 0.0, left) == len(sizes) - keep
    return directory


def test_pruned_footers_that_count_more_accepted_than_ended_are_told(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(5))
    log.outward("delivered", [(1, 3)])
    log.state("stop", 2)
    found = audited(pruned(log, tmp_path, [1], 0), at=30 * DAY_S)
    [row] = found["pruned_open"]
    assert (row["accepted"], row["ended"], row["open"], row["is_over"]) == (5, 3, 2, True)
    assert found["verdict"] == "attention"
    assert f"of the router {name(log.key)} (events 1 to 7) count 5 messages accepted" in told(found, "warning")


def test_ends_that_are_kept_count_for_what_was_pruned(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(5))
    log.outward("delivered", [(1, 3)])
    log.outward("delivered", [(4, 2)])
    found = audited(pruned(log, tmp_path, [1, 2], 1), at=30 * DAY_S)
    assert found["pruned_open"] == [] and found["verdict"] == "good"


def test_what_was_pruned_may_still_wait(tmp_path: Path) -> None:
    """As long as a message may live there, which `config` says; without that it is not known."""
    for number, (end_s, ttl_s, is_over) in enumerate(((DAY_S, DAY_S, False), (3 * DAY_S, DAY_S, True), (99, None, 0))):
        log = Log()
        log.accepted(1, range(5), ttl=DAY_S)
        log.state("config", 1, **({} if ttl_s is None else {"ttl_s_max": ttl_s}))
        log.state("stop", end_s)
        found = audited(pruned(log, tmp_path / str(number), [1], 1), at=30 * DAY_S)
        assert [row["is_over"] for row in found["pruned_open"]] == [is_over]
        assert found["verdict"] == ("attention" if is_over else "good")
