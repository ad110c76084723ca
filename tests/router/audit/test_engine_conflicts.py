"""The audit reports impossible statements of a log: those that contradict the rest of it, or its footers.

The logs of many cases are audited at once: a case is a router of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from samples.audit_logs import APP, START, Log, name
from samples.judged_logs import DAY_S, Judged, Write, ids, judged, pruned

from router.core.log.line import Line, decode_line, encode_lines
from router.core.log.segment import sign

# -- under way for ever, and what was pruned --------------------------------------------------------------


def in_flight(end_s: int, event: str = "join", **fields: Any) -> Write:
    def write(log: Log, directory: Path) -> None:
        log.state("start")
        log.state("link_up", peer=APP, link=2)
        log.accepted(1, ids(log, 3))
        log.outward("forwarded", [(1, 3)])
        log.state(event, end_s, **fields)
        log.write(directory)

    return write


def waiting(event: str, **fields: Any) -> Write:
    def write(log: Log, directory: Path) -> None:
        log.accepted(1, ids(log, 2))
        log.state(event, 29 * DAY_S, **fields)
        log.write(directory)

    return write


def footers_of_open(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 5))
    log.outward("delivered", [(1, 3)])
    log.state("stop", 2)
    pruned(log, directory, [1], 0)


def kept_ends(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 5))
    log.outward("delivered", [(1, 3)])
    log.outward("delivered", [(4, 2)])
    pruned(log, directory, [1, 2], 1)


def may_wait(end_s: int, ttl_s: int | None) -> Write:
    def write(log: Log, directory: Path) -> None:
        log.accepted(1, ids(log, 5), ttl=DAY_S)
        log.state("config", 1, **({} if ttl_s is None else {"ttl_s_max": ttl_s}))
        log.state("stop", end_s)
        pruned(log, directory, [1], 1)

    return write


MONTH: dict[str, Write] = {
    "weeks": in_flight(29 * DAY_S),
    "an hour": in_flight(3600),
    "doubted": waiting("clock_step", by_s=7200, doubted=True),
    "new start": waiting("start"),
    "open": footers_of_open,
    "kept": kept_ends,
    "may wait": may_wait(DAY_S, DAY_S),
    "is over": may_wait(3 * DAY_S, DAY_S),
    "not known": may_wait(99, None),
}


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judged(MONTH, tmp_path_factory.mktemp("month"), 30 * DAY_S)


def test_in_flight_for_weeks_after_its_time_is_told(month: Judged) -> None:
    assert month.states("weeks") == {"owed": 3, "pending": 3}
    [row] = month.rows("overdue", "weeks")
    assert (row["count"], row["recipients"], row["seq"], row["parcel"]) == (3, 1, 3, 1)
    assert row["due_ns"] == START + 60 * 10**9 and row["file"].endswith("events-0000000000000001.jsonl")
    said = month.told("weeks", "warning")
    assert "3 deliveries under way" in said and APP in said and not month.told("weeks", "bad")
    assert month.found["verdict"] == "attention"


def test_in_flight_for_an_hour_is_not_told_nor_what_the_audit_is_too_early_for(month: Judged, tmp_path: Path) -> None:
    assert month.rows("overdue", "an hour") == []
    assert judged({"weeks": MONTH["weeks"]}, tmp_path, 3600).found["overdue"] == []


def test_pending_under_a_doubted_clock_or_a_new_start_is_told(month: Judged) -> None:
    for case, is_doubted in (("doubted", True), ("new start", False)):
        assert month.states(case) == {"owed": 2, "pending": 2}, case
        assert [row["is_doubted"] for row in month.rows("overdue", case)] == [is_doubted]
        assert ("doubts its clock" in month.told(case, "warning")) is is_doubted


def test_pruned_footers_that_count_more_accepted_than_ended_are_told(month: Judged) -> None:
    [row] = month.rows("pruned_open", "open")
    assert (row["accepted"], row["ended"], row["open"], row["is_over"]) == (5, 3, 2, True)
    router = name(month.logs["open"].key)
    assert f"of the router {router} (events 1 to 7) count 5 messages accepted" in month.told("open", "warning")


def test_ends_that_are_kept_count_for_what_was_pruned(month: Judged) -> None:
    assert month.rows("pruned_open", "kept") == [] and not month.is_accused("kept")


def test_what_was_pruned_may_still_wait(month: Judged) -> None:
    """Messages in pruned segments may wait as long as `config` lets a message live there; without that it is not
    known."""
    for case, is_over in (("may wait", False), ("is over", True), ("not known", False)):
        assert [row["is_over"] for row in month.rows("pruned_open", case)] == [is_over]
        assert month.is_accused(case) is is_over, case


# -- those that pass nothing on, and arrival numbers ------------------------------------------------------


def barring(times: int) -> Write:
    def write(log: Log, directory: Path) -> None:
        log.state("start")
        for at in range(times):
            log.noted("pubsub_barred", 1, "pubsub:withholds", at, router=APP, lost=3, withheld=1, for_s=3600)
        log.write(directory)

    return write


def repaired(log: Log, directory: Path) -> None:
    log.state("start")
    log.noted("pubsub_repaired", 1, None, 1, router=APP, asks=1)
    log.write(directory)


def twice(log: Log, directory: Path) -> None:
    """Give arrival numbers again: parcels that only overlap count too; of three acceptances with the same numbers, two
    are too many."""
    messages = ids(log, 31)
    for first, start, stop in ((1, 0, 5), (11, 10, 15), (4, 20, 30), (13, 30, 31)):
        log.accepted(first, messages[start:stop])
    log.outward("delivered", [(1, 5)])
    log.outward("delivered", [(11, 5)], parcel=11)
    log.outward("delivered", [(4, 10)], parcel=4)
    log.outward("delivered", [(13, 1)], parcel=13)
    log.write(directory, [2])


def with_gaps(log: Log, directory: Path) -> None:
    messages = ids(log, 11)
    for first, start, stop in ((1, 0, 5), (16, 5, 10), (7, 10, 11)):
        log.accepted(first, messages[start:stop])
    log.write(directory)


# -- expired too early ------------------------------------------------------------------------------------


def expired(
    at: float, ttl: int = DAY_S, ttl_s_max: int | None = 7 * DAY_S, reason: str | None = None, **columns: Any
) -> Write:
    why: dict[str, Any] = {} if reason is None else {"reason": reason}

    def write(log: Log, directory: Path) -> None:
        if ttl_s_max is not None:
            log.state("config", 0, ttl_s_max=ttl_s_max)
        log.accepted(1, ids(log, 3), at=0.7, ttl=ttl, **columns)
        log.outward("expired", [(1, 3)], at, **why)
        log.write(directory)

    return write


def expired_after_a_hole(log: Log, directory: Path) -> None:
    """The router may have told a lower limit in it."""
    log.state("config", 0, ttl_s_max=7 * DAY_S)
    log.state("config", 0.5, ttl_s_max=9)
    log.accepted(1, ids(log, 3), at=0.7, ttl=DAY_S)
    log.outward("expired", [(1, 3)], 10)
    log.write(directory, [1, 2])
    sorted(directory.glob("events-*.jsonl"))[1].unlink()


MINUTE_OF_START = (START - 1_577_836_800 * 10**9) // 60 // 10**9
IN_TIME: dict[str, Write] = {
    "by its ttl": expired(DAY_S),
    "by its expiry": expired(60, expiries=[MINUTE_OF_START + 1] * 3),
    "by the router's limit": expired(9, ttl_s_max=9),
    "by lives of their own": expired(5, ttls=[5] * 3),
}
AWAY: dict[str, tuple[str, str, float, bool]] = {
    "a copy in a minute": ("copy", "next-away", 60, False),
    "a copy in half a minute": ("copy", "next-away", 30, True),
    "a copy by its time": ("copy", "ttl-expired", 60, True),
    "no copy": ("multicast", "next-away", 60, True),
}
"""Kind and reason, when it expired, and whether that is too early."""
OF_ONE_LOG: dict[str, Write] = {
    "barred twice": barring(2),
    "barred once": barring(1),
    "repaired": repaired,
    "numbers twice": twice,
    "numbers with gaps": with_gaps,
    "after a second": expired(2),
    **IN_TIME,
    **{
        case: expired(at, reason=reason, kind=kind, ttls=[DAY_S, DAY_S, DAY_S - 1])
        for case, (kind, reason, at, _) in AWAY.items()
    },
    "some of them": expired(10, ttls=[9, 20, 9]),
    "of an unknown limit": expired(2, ttl_s_max=None),
    "by a limit of nothing": expired(2, ttl_s_max=0),
    "by a limit in a hole": expired_after_a_hole,
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judged(OF_ONE_LOG, tmp_path_factory.mktemp("alone"), 2 * DAY_S)


def test_a_router_that_passes_nothing_on_is_named_by_those_that_barred_it(alone: Judged) -> None:
    columns = ("peer", "count", "lost", "withheld", "seq")
    for case, values in (("barred twice", (APP, 2, 6, 2, 2)), ("barred once", (APP, 1, 3, 1, 2))):
        assert [tuple(row[column] for column in columns) for row in alone.rows("barred", case)] == [values]
        assert f"{APP} takes messages of groups and passes none on" in alone.told(case, "warning")
        assert not alone.told(case, "bad")


def test_an_honest_fleet_names_nobody(alone: Judged) -> None:
    assert alone.rows("barred", "repaired") == [] and len(alone.found["barred"]) == 2


def test_an_arrival_number_that_is_given_twice_is_told(alone: Judged) -> None:
    [row] = alone.rows("again", "numbers twice")
    assert (row["count"], row["arrival"], row["first_seq"], row["seq"]) == (2 + 3 + 1, 4, 1, 11)
    assert row["file"].endswith("events-0000000000000011.jsonl") and alone.found["verdict"] == "bad"
    said = "6 arrival numbers more than once: 4 first in event 1, and again in event 11 ("
    assert said in alone.told("numbers twice", "bad")


def test_arrival_numbers_may_have_gaps(alone: Judged) -> None:
    assert alone.rows("again", "numbers with gaps") == []


def test_expired_a_second_after_it_was_accepted_for_a_day_is_told(alone: Judged) -> None:
    [row] = alone.rows("early", "after a second")
    assert (row["count"], row["sure"], row["seq"], row["arrival"], row["recipient"]) == (3, 3, 2, 1, APP)
    assert row["due_ns"] - row["expired_t"] == (DAY_S - 1) * 10**9 - 3 * 10**8
    assert "before its time was over" in alone.told("after a second", "bad")


@pytest.mark.parametrize("case", IN_TIME)
def test_expired_in_time_is_not_told(case: str, alone: Judged) -> None:
    """A message may expire from the full second on, when the shortest of ttl, expiry and the router's limit is over."""
    assert alone.rows("early", case) == [] and not alone.is_accused(case)


@pytest.mark.parametrize("case", AWAY)
def test_copy_for_a_router_that_is_away_is_judged_by_its_minute(case: str, alone: Judged) -> None:
    kind, reason, _, is_early = AWAY[case]
    rows = alone.rows("early", case)
    assert [row["count"] for row in rows] == [3] * is_early
    if is_early and (kind, reason) == ("copy", "next-away"):
        assert rows[0]["due_ns"] == START + int(60.7 * 10**9)


def test_of_messages_with_lives_of_their_own_each_is_judged(alone: Judged) -> None:
    [row] = alone.rows("early", "some of them")
    assert (row["count"], row["arrival"]) == (1, 2)


@pytest.mark.parametrize("case", ["of an unknown limit", "by a limit of nothing", "by a limit in a hole"])
def test_where_the_log_does_not_say_how_long_a_message_may_live_it_is_a_warning(case: str, alone: Judged) -> None:
    assert [(row["count"], row["sure"]) for row in alone.rows("early", case)] == [(3, 0)]
    assert alone.told(case, "warning") and not alone.told(case, "bad")


# -- a footer and its lines -------------------------------------------------------------------------------


def signed_anew(path: Path, log: Log, change: Callable[[Line], Line]) -> None:
    """Return the segment with its footer changed, and signed again by its router."""
    lines = path.read_bytes().splitlines(keepends=True)
    footer = change(decode_line(lines[-1]))
    path.write_bytes(b"".join(lines[:-1]) + encode_lines([sign(footer, log.key)]))


def counting(**counts: int) -> Callable[[Line], Line]:
    return lambda row: replace(row, counts={**(row.counts or {}), **counts})


FOOTERS: dict[str, tuple[Callable[[Line], Line], str]] = {
    "more events than lines": (
        lambda row: replace(row, last_seq=row.last_seq + 5, n=row.n + 5), "the footer says last_seq 10, the lines 5",
    ),
    "fewer": (
        lambda row: replace(row, last_seq=row.last_seq - 1, n=row.n - 1), "the footer says last_seq 4, the lines 5",
    ),
    "more lines": (lambda row: replace(row, lines=row.lines + 1), "the footer says lines 3, the lines 2"),
    "more deliveries": (counting(delivered=4), "the footer counts 4 delivered, the lines 3"),
    "what is not there": (counting(acked=1), "the footer counts 1 acked, the lines 0"),
    "none of them": (
        lambda row: replace(row, counts={}), "the event 'delivered', of which the footer counts none",
    ),
}  # fmt: skip


def with_footer(change: Callable[[Line], Line]) -> Write:
    def write(log: Log, directory: Path) -> None:
        log.accepted(1, ids(log, 3))
        log.outward("delivered", [(1, 3)])
        log.state("stop", 2)
        log.write(directory, [1])
        signed_anew(directory / "events-0000000000000004.jsonl", log, change)

    return write


def in_no_line(log: Log, directory: Path) -> None:
    """Leave out event numbers that the footer and the name of the next file cover, so that only the lines show it."""
    log.accepted(1, ids(log, 3))
    log.skip(4)
    log.outward("delivered", [(1, 3)])
    log.state("stop", 2)
    log.write(directory, [2])


def doubled(log: Log, directory: Path) -> None:
    """Give two lines one event number. The sums fit, because as many numbers are missing as are doubled."""
    log.accepted(1, ids(log, 3))
    log.outward("delivered", [(1, 3)])
    log.seq -= 1
    log.state("join", 1)
    log.skip(1)
    log.state("stop", 2)
    log.write(directory)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    cases: dict[str, Write] = {case: with_footer(change) for case, (change, _) in FOOTERS.items()}
    return judged({**cases, "in no line": in_no_line, "doubled": doubled}, tmp_path_factory.mktemp("signed"))


def problems(found: Judged, case: str) -> tuple[str, list[str]]:
    """Return the path of a case's only file that does not count, and the problems with its files."""
    [file] = [one for one in found.rows("files", case) if one["status"] == "bad"]
    directory = f"{Path(file['path']).parent}/"
    return file["path"], [one for one in found.found["problems"] if one.startswith(directory)]


@pytest.mark.parametrize("what", FOOTERS)
def test_a_footer_that_its_lines_contradict_is_told(what: str, signed: Judged) -> None:
    path, said = problems(signed, what)
    assert path.endswith("events-0000000000000004.jsonl") and any(FOOTERS[what][1] in one for one in said), said
    assert "though its router signed it: footer and lines contradict each other" in signed.told(what, "bad")
    assert signed.states(what) == {"owed": 3, "unknown": 3}


def test_event_numbers_that_are_in_no_line_are_told(signed: Judged) -> None:
    path, said = problems(signed, "in no line")
    assert path.endswith("events-0000000000000001.jsonl") and signed.told("in no line", "bad")
    assert f"{path}:3: before this line is missing: events 4 to 7" in said
    [row] = signed.rows("by_router", "in no line")
    assert (row["owed"], row["strays"], signed.rows("holes", "in no line")[0]["last_seq"]) == (0, 0, 8)


def test_two_lines_with_one_event_number_are_told(signed: Judged) -> None:
    _, said = problems(signed, "doubled")
    assert any("the sequence number 4 where 5 should be" in one for one in said) and signed.told("doubled", "bad")
