"""The audit of a router that was restored from a snapshot: told as such, and nobody is accused of a contradiction."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples.audit_logs import LATE, SECOND, START, A, B, Log, audited, name, states
from samples.two_logs import taken_again

from router.core.log.life import Life
from spark_analytics.judgement.lives import UNTRUE
from spark_analytics.report.headline import headline

FIRST = 10_100_000_004


def test_a_restored_router_beside_its_older_log_and_a_neighbours(tmp_path: Path) -> None:
    """The life before delivered what was in the snapshot, and took over and delivered more. The next life knows of
    neither, and what waited expires."""
    before, after, neighbour = Log(), Log(), Log(B)
    for log in (before, after):
        log.accepted(1, range(3))
    before.outward("delivered", [(1, 3)])
    before.accepted(4, range(3, 5), peer=name(B))
    before.outward("delivered", [(4, 2)], parcel=4)
    after.state("log_gap", n=FIRST - 4, missing=FIRST - 4)
    after.state("start", arrival=FIRST, **dict(Life(1_790_000_100_000, 1_790_000_000, 1_790_000_100, 3, FIRST).told()))
    after.outward("expired", [(1, 3)], at=70)
    neighbour.accepted(1, range(3, 5), [name(A)])
    neighbour.outward("acked", [(1, 2)], recipient=name(A))
    for log in (after, neighbour):
        log.state("stop", LATE)
    found = audited(*(log.write(tmp_path / str(number)) for number, log in enumerate((before, after, neighbour))))
    assert states(found) == {"owed": 5, "expired": 3, "acked": 2}
    assert [file["status"] for file in found["files"]] == ["former"]
    assert (found["contradictions"], found["duplicates"], found["problems"]) == (0, 0, [])
    assert [(row["broken"], row["unknown"]) for row in found["custody"]] == [(0, 2)]
    [hole] = found["holes"]
    assert (hole["first_seq"], hole["last_seq"]) == (4, FIRST - 1)
    assert found["verdict"] == "attention"
    [said] = [one["text"] for one in found["findings"] if "was restored on" in one["text"]]
    assert said == (
        f"The router {name(A)} was restored on 2026-09-21 14:15:00 UTC from a snapshot of 2026-09-21 14:13:20 UTC; "
        f"what it did in between is not in its log (events 4 to {FIRST - 1}). 1 file of a life before is left out."
    )
    assert headline(found).startswith("1 router was restored on 2026-09-21 14:15:00 UTC from a snapshot of 2026-09-21")
    assert "cannot be believed" not in headline(found)
    assert not any("not whole: it lacks" in one["text"] for one in found["findings"])


def test_a_neighbour_that_heard_of_the_life_before_after_the_restore_contradicts_it(tmp_path: Path) -> None:
    """The moments are ten days before the neighbour's line, and the head that it was told of lies between the lives."""
    log, neighbour = Log(), Log(B)
    at_s = START // SECOND - 10 * 86_400
    log.accepted(1, range(3))
    log.state("log_gap", n=FIRST - 4, missing=FIRST - 4)
    log.state("start", arrival=FIRST, **dict(Life(at_s * 1000, at_s - 50, at_s, 3, FIRST).told()))
    neighbour.state("link", peer=name(A), head_seq=9, head_digest="77" * 32)
    found = audited(*(each.write(tmp_path / str(number)) for number, each in enumerate((log, neighbour))))
    assert [hole["last_seq"] for hole in found["holes"] if hole["why"].endswith(UNTRUE)] == [9]
    assert found["verdict"] == "bad" and headline(found).startswith("The log of 1 router cannot be believed in all")
    assert not any("was restored on" in one["text"] for one in found["findings"])


@pytest.mark.parametrize("is_given", [True, False], ids=["with the restore", "without the file that tells of it"])
def test_what_a_restored_router_accepts_again_bounds_no_clock(is_given: bool, tmp_path: Path) -> None:
    """It brought the message before the snapshot was put back, and does not know so; the neighbour had it then."""
    log, neighbour = Log(), Log(B)
    taken_again(log, neighbour)
    log.write(tmp_path / "a", cuts=(3, 5))
    if not is_given:
        [file] = [one for one in (tmp_path / "a").iterdir() if b'"log_gap"' in one.read_bytes()]
        file.unlink()
    found = audited(tmp_path / "a", neighbour.write(tmp_path / "b"))
    [row] = found["custody"]
    assert (row["followed"], row["lower_ns"], row["upper_ns"]) == (1, -66 * SECOND, None)
    assert not [one["text"] for one in found["findings"] if "clocks" in one["text"]]
