"""Messages followed from one router to the next, and the clocks of both compared.

The logs of all cases are audited at once: a case is two routers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from samples.audit_logs import APP, LATE, SECOND, A, B, Log, audited, message_id, name
from samples.judged_logs import ids, log_of
from samples.mesh_logs import BOUNDS_NS, write_mesh
from samples.two_logs import clock_moved

from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from spark_analytics.judgement.schema import STATES

TO_APP: dict[str, Any] = {"source": APP, "destination": APP, "group": None}
Pair = Callable[[Log, Log, Path, Path], object]
"""Writes the logs of a router and of the next one, each into its directory."""
CASES: dict[str, Pair] = {}


def case(write: Pair) -> Pair:
    CASES[write.__name__] = write
    return write


class Followed(NamedTuple):
    """The audit of all cases' logs, and the two of each case."""

    found: dict[str, Any]
    logs: Mapping[str, tuple[Log, Log]]

    def custody(self, case: str) -> list[dict[str, Any]]:
        """Return the handovers of the case's first router, all of them to the second."""
        here, there = self.logs[case]
        rows = [row for row in self.found["custody"] if row["router"] == name(here.key)]
        assert all(row["recipient"] == name(there.key) for row in rows)
        return [{column: row[column] for column in row.keys() - {"router", "recipient"}} for row in rows]

    def states(self, case: str) -> dict[str, int]:
        """Return the states that have any units of both routers, and how many are owed."""
        both = {name(log.key) for log in self.logs[case]}
        rows = [row for row in self.found["by_router"] if row["router"] in both]
        sums = {state: sum(row[state] for row in rows) for state in ("owed", *STATES)}
        return {state: count for state, count in sums.items() if count}

    def broken(self, case: str) -> list[dict[str, Any]]:
        return [row for row in self.found["broken"] if row["router"] == name(self.logs[case][0].key)]

    def is_bad(self, case: str) -> bool:
        """Whether something bad is found about the case's first router."""
        router = name(self.logs[case][0].key)
        return any(router in row["text"] for row in self.found["findings"] if row["level"] == "bad")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    directory = tmp_path_factory.mktemp("pairs")
    logs = {case: (log_of(case), log_of(f"{case} there")) for case in CASES}
    for case, write in CASES.items():
        write(*logs[case], directory / case / "a", directory / case / "b")
    return Followed(audited(directory), logs)


def handed_over(log: Log, there: Log, count: int, at: float = 0, acked: float = 4, end: str = "acked") -> Log:
    """Write that messages were accepted, and taken over by the next router, by this word for it."""
    log.accepted(1, ids(log, count), [name(there.key)], at=at)
    log.outward(end, [(1, count)], at=acked, recipient=name(there.key))
    log.state("stop", LATE)
    return log


def taken(log: Log, here: Log, *numbers: int, at: float = 2, end: float = LATE) -> Log:
    """Write that the next router accepted these messages, and delivered them."""
    log.state("start", 0)
    if numbers:
        every = ids(here, max(numbers) + 1)
        log.accepted(1, [every[number] for number in numbers], at=at, peer=name(here.key))
        log.outward("delivered", [(1, len(numbers))], at=at + 1)
    log.state("stop", end)
    return log


def one_message(here: Log, number: int) -> str:
    return message_id(ids(here, number + 1)[number])


@case
def all_taken(here: Log, there: Log, a: Path, b: Path) -> None:
    handed_over(here, there, 40).write(a)
    taken(there, here, *range(40)).write(b)


def test_followed_and_the_bounds_of_the_clocks(followed: Followed) -> None:
    assert followed.custody("all_taken") == [
        {"acked": 40, "followed": 40, "broken": 0, "unknown": 0, "lower_ns": -2 * SECOND, "upper_ns": 2 * SECOND}
    ]
    assert followed.states("all_taken") == {"owed": 80, "acked": 40, "delivered": 40}


def test_clocks_are_bounded_by_what_this_router_brought_first(tmp_path: Path) -> None:
    """In a mesh the other router may have had a message before; a copy counts from when its router accepted it. What
    the other router sends on is no second acceptance."""
    found = audited(*write_mesh(tmp_path, A, B))
    lower_ns, upper_ns = BOUNDS_NS
    assert found["custody"] == [
        {
            "router": name(A), "recipient": name(B), "acked": 3, "followed": 3, "broken": 0, "unknown": 0,
            "lower_ns": lower_ns, "upper_ns": upper_ns,
        }
    ]  # fmt: skip
    assert found["early"] == [] and found["verdict"] == "good"


@case
def from_elsewhere(here: Log, there: Log, a: Path, b: Path) -> None:
    handed_over(here, there, 1).write(a)
    taken(there, here).accepted(1, ids(here, 1), at=-50)
    there.write(b)


def test_what_came_from_elsewhere_bounds_a_clock_on_one_side(followed: Followed) -> None:
    """The other router has it before it acknowledges it, whoever brought it."""
    [row] = followed.custody("from_elsewhere")
    assert (row["followed"], row["lower_ns"], row["upper_ns"]) == (1, -54 * SECOND, None)


def pruned_of(kind: str) -> Pair:
    def write(here: Log, there: Log, a: Path, b: Path) -> None:
        for at in (-20, -10, LATE):
            there.state("join", at)
        here.accepted(1, ids(here, 1), [name(there.key)], kind=kind, **(TO_APP if kind == "unicast" else {}))
        here.outward("acked", [(1, 1)], at=4, recipient=name(there.key))
        here.state("stop", LATE)
        here.write(a)
        kept = max(there.write(b, [1]).glob("events-*"))
        assert Segments(b, there.key, LogLimits()).prune(0.0, 0.0, kept.stat().st_size) == 1

    return write


BROKEN_IF_PRUNED = {"unicast": 1, "multicast": 0, "copy": 0}
CASES |= {f"pruned {kind}": pruned_of(kind) for kind in BROKEN_IF_PRUNED}


@pytest.mark.parametrize("kind", BROKEN_IF_PRUNED)
def test_a_pruned_log_lacks_a_multicast_that_came_from_elsewhere(kind: str, followed: Followed) -> None:
    [row] = followed.custody(f"pruned {kind}")
    assert (row["broken"], row["unknown"]) == (BROKEN_IF_PRUNED[kind], 1 - BROKEN_IF_PRUNED[kind])


def ending_at(end: float) -> Pair:
    def write(here: Log, there: Log, a: Path, b: Path) -> None:
        handed_over(here, there, 1).write(a)
        taken(there, here, end=end).write(b)

    return write


BROKEN_IF_ENDING = {4 + 599: 0, 4 + 601: 1}
CASES |= {f"ending at {end}": ending_at(end) for end in BROKEN_IF_ENDING}


@pytest.mark.parametrize("end", BROKEN_IF_ENDING)
def test_log_that_was_copied_before_all_handovers_is_not_accused_for_a_clock_some_minutes_ahead(
    end: int, followed: Followed
) -> None:
    """Nothing is followed there that could tell by how much."""
    [row] = followed.custody(f"ending at {end}")
    assert (row["broken"], row["unknown"]) == (BROKEN_IF_ENDING[end], 1 - BROKEN_IF_ENDING[end])


def set_before_a_copy(by_s: int, end: float) -> Pair:
    """Copy the log of the next router at `end`, by the true time, after its clock was set; the router goes on to hand
    messages over, at 300 the last."""

    def write(here: Log, there: Log, a: Path, b: Path) -> None:
        for first, at in ((1, 0), (2, 300)):
            here.accepted(first, ids(here, 2)[first - 1 : first], [name(there.key)], at=at)
            here.outward("acked", [(first, 1)], at=at + 4, recipient=name(there.key), parcel=first)
        here.state("stop", LATE)
        here.write(a)
        clock_moved(lambda _, log: taken(log, here, 0, end=end), 100, by_s)(here, there)
        there.write(b)

    return write


def set_before_a_beginning(by_s: int) -> Pair:
    """Prune the beginning of the next router's log, of which the clock is set at 100, and of which that beginning may
    have held a message that was handed over at 2."""

    def write(here: Log, there: Log, a: Path, b: Path) -> None:
        for first, at in ((1, 0), (2, 200)):
            own = ids(here, 2)[first - 1 : first]
            here.accepted(first, own, [name(there.key)], at=at, kind="unicast", **TO_APP)
            here.outward("acked", [(first, 1)], at=at + 4, recipient=name(there.key), parcel=first)
        here.state("stop", LATE)
        here.write(a)

        def lines(_: Log, log: Log) -> None:
            log.state("join", 50)
            log.state("join", 60)
            log.accepted(1, ids(here, 2)[1:], at=202, peer=name(here.key), kind="unicast", **TO_APP)
            log.state("stop", LATE)

        clock_moved(lines, 100, by_s)(here, there)
        there.lines = [replace(line, t=line.t - by_s * SECOND) for line in there.lines]
        kept = max(there.write(b, [1]).glob("events-*"))
        assert Segments(b, there.key, LogLimits()).prune(0.0, 0.0, kept.stat().st_size) == 1

    return write


BROKEN_IF_SET = {(0, 200): 0, (0, 400): 1, (150, 200): 0, (150, 400): 1, (-150, 400): 0, (-150, 700): 1}
CASES |= {f"set by {by_s}, copied at {end}": set_before_a_copy(by_s, end) for by_s, end in BROKEN_IF_SET}
CASES["begun with its clock behind"] = set_before_a_beginning(300)


@pytest.mark.parametrize(("by_s", "end"), BROKEN_IF_SET)
def test_a_copied_log_of_which_the_clock_was_set_is_not_accused_of_what_came_later(
    by_s: int, end: int, followed: Followed
) -> None:
    """Nothing is followed after that which could tell how far it is ahead: it must go on by as much longer."""
    case, broken = f"set by {by_s}, copied at {end}", BROKEN_IF_SET[by_s, end]
    [row] = followed.custody(case)
    assert (row["followed"], row["broken"], row["unknown"]) == (1, broken, 1 - broken)
    assert followed.is_bad(case) is bool(broken)


def test_a_pruned_log_of_which_the_clock_was_set_need_not_tell_of_what_came_before(followed: Followed) -> None:
    assert [row["broken"] for row in followed.custody("begun with its clock behind")] == [0]


@case
def one_lost(here: Log, there: Log, a: Path, b: Path) -> None:
    handed_over(here, there, 3).write(a)
    taken(there, here, 0, 2).write(b)


@case
def one_lost_as_delivered(here: Log, there: Log, a: Path, b: Path) -> None:
    handed_over(here, there, 3, end="delivered").write(a)
    taken(there, here, 0, 2).write(b)


def is_broken(case: str, followed: Followed) -> None:
    here, there = followed.logs[case]
    assert followed.custody(case) == [
        {"acked": 3, "followed": 2, "broken": 1, "unknown": 0, "lower_ns": -2 * SECOND, "upper_ns": 2 * SECOND}
    ]
    [row] = followed.broken(case)
    lost = {"router": name(here.key), "recipient": name(there.key), "id": one_message(here, 1)}
    assert row == {**lost, "seq": row["seq"], "file": row["file"]} and followed.is_bad(case)
    [accepted] = [line for line in here.lines if line.seq == row["seq"]]
    assert accepted.event == "accepted" and Path(row["file"]).is_file()


def test_broken_is_named_and_bad(followed: Followed) -> None:
    is_broken("one_lost", followed)
    assert followed.found["verdict"] == "bad"


def test_what_is_called_delivered_to_a_router_is_followed_like_what_it_acknowledged(followed: Followed) -> None:
    is_broken("one_lost_as_delivered", followed)


@case
def ends_before(here: Log, there: Log, a: Path, b: Path) -> None:
    handed_over(here, there, 3).write(a)
    taken(there, here, 0, end=3.5).write(b)


@case
def with_hole(here: Log, there: Log, a: Path, b: Path) -> None:
    handed_over(here, there, 3).write(a)
    taken(there, here, 0).write(b, [1, 2])
    sorted(b.iterdir())[1].unlink()


@pytest.mark.parametrize(("case", "unknown"), [("ends_before", 2), ("with_hole", 3)])
def test_unknown_where_the_other_log_does_not_reach(case: str, unknown: int, followed: Followed) -> None:
    [row] = followed.custody(case)
    assert (row["followed"], row["broken"], row["unknown"]) == (3 - unknown, 0, unknown)
    assert not followed.is_bad(case)


@case
def to_itself(here: Log, _: Log, a: Path, __: Path) -> None:
    here.accepted(1, ids(here, 1), [name(here.key)])
    here.outward("delivered", [(1, 1)], at=1, recipient=name(here.key))
    here.write(a)


def test_what_is_delivered_to_the_router_itself_was_handed_to_nobody(followed: Followed) -> None:
    assert followed.custody("to_itself") == [] and followed.states("to_itself") == {"owed": 1, "delivered": 1}


@case
def alone(here: Log, there: Log, a: Path, _: Path) -> None:
    handed_over(here, there, 3).write(a)


def test_without_the_other_log_nothing_is_said(followed: Followed) -> None:
    assert followed.custody("alone") == [] and followed.states("alone") == {"owed": 3, "acked": 3}


@case
def at_its_goal(here: Log, there: Log, a: Path, b: Path) -> None:
    goal = name(there.key)
    here.accepted(1, ids(here, 2), [goal], kind="unicast", destination=goal, group=None, source=APP)
    here.outward("acked", [(1, 2)], recipient=goal)
    here.state("stop", LATE)
    here.write(a)
    taken(there, here).write(b)


def test_what_was_for_the_next_router_itself_is_at_its_goal(followed: Followed) -> None:
    assert followed.custody("at_its_goal") == [] and followed.states("at_its_goal") == {"owed": 2, "acked": 2}
