"""Messages followed from one router to the next, and the clocks of both compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from samples.audit_logs import APP, LATE, SECOND, A, B, Log, audited, message_id, name, states
from samples.mesh_logs import BOUNDS_NS, write_mesh

from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments

TO_APP: dict[str, Any] = {"source": APP, "destination": APP, "group": None}


def handed_over(ids: int, at: float = 0, acked: float = 4, end: str = "acked") -> Log:
    """Return A's log: messages 0 .. ids-1 accepted, and taken over by B, by this word for it."""
    log = Log(A)
    log.accepted(1, range(ids), [name(B)], at=at)
    log.outward(end, [(1, ids)], at=acked, recipient=name(B))
    log.state("stop", LATE)
    return log


def taken(*ids: int, at: float = 2, end: float = LATE) -> Log:
    """Return B's log: it accepted these messages, and delivered them."""
    log = Log(B)
    log.state("start", 0)
    if ids:
        log.accepted(1, ids, at=at, peer=name(A))
        log.outward("delivered", [(1, len(ids))], at=at + 1)
    log.state("stop", end)
    return log


def only(summary: dict[str, Any]) -> dict[str, Any]:
    [row] = summary["custody"]
    assert (row.pop("router"), row.pop("recipient")) == (name(A), name(B))
    return dict(row)


def test_followed_and_the_bounds_of_the_clocks(tmp_path: Path) -> None:
    found = audited(handed_over(40).write(tmp_path / "a"), taken(*range(40)).write(tmp_path / "b"))
    assert only(found) == {
        "acked": 40, "followed": 40, "broken": 0, "unknown": 0, "lower_ns": -2 * SECOND, "upper_ns": 2 * SECOND,
    }  # fmt: skip
    assert states(found) == {"owed": 80, "acked": 40, "delivered": 40}
    assert found["messages"] == 40


def test_clocks_are_bounded_by_what_this_router_brought_first(tmp_path: Path) -> None:
    """In a mesh the other router may have had a message before; a copy counts from when its router accepted it. What
    the other router sends on is no second acceptance."""
    found = audited(*write_mesh(tmp_path, A, B))
    lower_ns, upper_ns = BOUNDS_NS
    assert only(found) == {
        "acked": 3, "followed": 3, "broken": 0, "unknown": 0, "lower_ns": lower_ns, "upper_ns": upper_ns,
    }  # fmt: skip
    assert found["early"] == [] and found["verdict"] == "good"


def test_what_came_from_elsewhere_bounds_a_clock_on_one_side(tmp_path: Path) -> None:
    """The other router has it before it acknowledges it, whoever brought it."""
    there = taken()
    there.accepted(1, [0], at=-50)
    found = only(audited(handed_over(1).write(tmp_path / "a"), there.write(tmp_path / "b")))
    assert (found["followed"], found["lower_ns"], found["upper_ns"]) == (1, -54 * SECOND, None)


@pytest.mark.parametrize(("kind", "broken"), [("unicast", 1), ("multicast", 0), ("copy", 0)])
def test_a_pruned_log_lacks_a_multicast_that_came_from_elsewhere(kind: str, broken: int, tmp_path: Path) -> None:
    log, there = Log(A), Log(B)
    for at in (-20, -10, LATE):
        there.state("join", at)
    log.accepted(1, [0], [name(B)], kind=kind, **(TO_APP if kind == "unicast" else {}))
    log.outward("acked", [(1, 1)], at=4, recipient=name(B))
    log.state("stop", LATE)
    directory = there.write(tmp_path / "b", [1])
    kept = max(directory.glob("events-*"))
    assert Segments(directory, B, LogLimits()).prune(0.0, 0.0, kept.stat().st_size) == 1
    found = only(audited(log.write(tmp_path / "a"), directory))
    assert (found["broken"], found["unknown"]) == (broken, 1 - broken)


@pytest.mark.parametrize(("end", "broken"), [(4 + 599, 0), (4 + 601, 1)])
def test_log_that_was_copied_before_all_handovers_is_not_accused_for_a_clock_some_minutes_ahead(
    end: int, broken: int, tmp_path: Path
) -> None:
    """Nothing is followed there that could tell by how much."""
    found = only(audited(handed_over(1).write(tmp_path / "a"), taken(end=end).write(tmp_path / "b")))
    assert (found["broken"], found["unknown"]) == (broken, 1 - broken)


def test_broken_is_named_and_bad(tmp_path: Path) -> None:
    found = audited(handed_over(3).write(tmp_path / "a"), taken(0, 2).write(tmp_path / "b"))
    assert {**only(found), "lower_ns": 0, "upper_ns": 0} == {
        "acked": 3, "followed": 2, "broken": 1, "unknown": 0, "lower_ns": 0, "upper_ns": 0,
    }  # fmt: skip
    assert found["broken"] == [{"router": name(A), "recipient": name(B), "id": message_id(1)}]
    assert found["verdict"] == "bad"


@pytest.mark.parametrize("case", ["ends before", "has a hole"])
def test_unknown_where_the_other_log_does_not_reach(tmp_path: Path, case: str) -> None:
    there = taken(0, end=3.5 if case == "ends before" else LATE)
    cuts = [1, 2] if case == "has a hole" else []
    directory = there.write(tmp_path / "b", cuts)
    if case == "has a hole":
        sorted(directory.iterdir())[1].unlink()
    found = only(audited(handed_over(3).write(tmp_path / "a"), directory))
    unknown = 2 if case == "ends before" else 3
    assert (found["followed"], found["broken"], found["unknown"]) == (3 - unknown, 0, unknown)


def test_what_is_called_delivered_to_a_router_is_followed_like_what_it_acknowledged(tmp_path: Path) -> None:
    found = audited(handed_over(3, end="delivered").write(tmp_path / "a"), taken(0, 2).write(tmp_path / "b"))
    assert only(found) == {
        "acked": 3, "followed": 2, "broken": 1, "unknown": 0, "lower_ns": -2 * SECOND, "upper_ns": 2 * SECOND,
    }  # fmt: skip
    assert [row["id"] for row in found["broken"]] == [message_id(1)] and found["verdict"] == "bad"


def test_what_is_delivered_to_the_router_itself_was_handed_to_nobody(tmp_path: Path) -> None:
    log = Log(A)
    log.accepted(1, [1], [name(A)])
    log.outward("delivered", [(1, 1)], at=1, recipient=name(A))
    assert audited(log.write(tmp_path / "a"))["custody"] == []


def test_without_the_other_log_nothing_is_said(tmp_path: Path) -> None:
    assert audited(handed_over(3).write(tmp_path / "a"))["custody"] == []


def test_what_was_for_the_next_router_itself_is_at_its_goal(tmp_path: Path) -> None:
    log = Log(A)
    log.accepted(1, range(2), [name(B)], kind="unicast", destination=name(B), group=None, source=APP)
    log.outward("acked", [(1, 2)], recipient=name(B))
    log.state("stop", LATE)
    found = audited(log.write(tmp_path / "a"), taken().write(tmp_path / "b"))
    assert found["custody"] == [] and states(found) == {"owed": 2, "acked": 2}
