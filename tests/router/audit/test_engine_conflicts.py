"""The audit reports impossible statements of a log, and those that other logs contradict, although its router signed
them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from samples.audit_logs import APP, LATE, OTHER_APP, START, A, B, Log, audited, message_id, name, states

from router.core.log.line import Line, decode_line, encode_lines
from router.core.log.segment import sign
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments

DAY_S = 86_400


def told(found: dict[str, Any], level: str) -> str:
    """Return the findings at that level as one text."""
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
    """Return the log in segments, of which the last `keep` are left, beside the footers of the others."""
    log.write(directory, cuts)
    sizes = [path.stat().st_size for path in sorted(directory.glob("events-*"))]
    left = sum(sizes[len(sizes) - keep :]) if keep else 0
    assert Segments(directory, log.key, LogLimits()).prune(0.0, 0.0, left) == len(sizes) - keep
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
    """Messages in pruned segments may wait as long as `config` lets a message live there; without that it is not
    known."""
    for number, (end_s, ttl_s, is_over) in enumerate(((DAY_S, DAY_S, False), (3 * DAY_S, DAY_S, True), (99, None, 0))):
        log = Log()
        log.accepted(1, range(5), ttl=DAY_S)
        log.state("config", 1, **({} if ttl_s is None else {"ttl_s_max": ttl_s}))
        log.state("stop", end_s)
        found = audited(pruned(log, tmp_path / str(number), [1], 1), at=30 * DAY_S)
        assert [row["is_over"] for row in found["pruned_open"]] == [is_over]
        assert found["verdict"] == ("attention" if is_over else "good")


# -- facts that belong to an id ---------------------------------------------------------------------------


def both(directory: Path, **columns: Any) -> dict[str, Any]:
    """Audit two logs that accept the same two messages, and of which the second tells these columns otherwise."""
    here, there = Log(A), Log(B)
    here.state("start")
    given: dict[str, Any] = {"sizes": [500, 600], "ttls": [60, 70], "expiries": [30_000_000, 30_000_001]}
    here.accepted(1, range(2), [], **given)
    there.accepted(1, range(2), [], **given | columns)
    here.write(directory / "a")
    there.write(directory / "b")
    return audited(directory)


@pytest.mark.parametrize(
    ("columns", "fact"),
    [
        ({"ttls": [60, 1]}, "ttl"),
        ({"ttls": [70, 70]}, "ttl"),
        ({"expiries": [30_000_001, 30_000_001]}, "expiry"),
        ({"sizes": [500, 635]}, "size"),
        ({"group": APP}, "source or group"),
        ({"kind": "unicast", "group": None, "source": message_id("group"), "destination": APP}, "kind"),
    ],
)
def test_facts_of_an_id_that_two_logs_tell_otherwise_are_told(
    columns: dict[str, Any], fact: str, tmp_path: Path
) -> None:
    found = both(tmp_path, **columns)
    [row] = found["claims"]
    later, former = sorted((name(A), name(B)), reverse=True)
    seqs = {name(A): 2, name(B): 1}
    assert (row["router"], row["peer"], row["seq"], row["accepted_seq"]) == (later, former, seqs[later], seqs[former])
    count = 2 if fact in ("kind", "source or group") else 1
    assert row["count"] == count and row["id"] in (message_id(0), message_id(1))
    assert Path(row["file"]).parent.name != Path(row["accepted_file"]).parent.name
    words = f"tell another {fact} of {count} message{'s' * (count > 1)}, although it belongs to the id"
    assert found["verdict"] == "bad" and words in told(found, "bad")


@pytest.mark.parametrize("columns", [{}, {"sizes": [534, 600]}, {"sizes": [466, 634]}, {"kind": "copy"}])
def test_facts_that_may_differ_between_two_logs_are_no_claim(columns: dict[str, Any], tmp_path: Path) -> None:
    """VIA belongs to a message as received, not to its id; a copy is the multicast that it is of."""
    assert both(tmp_path, **columns)["claims"] == []


# -- those that pass nothing on ---------------------------------------------------------------------------


def test_a_router_that_passes_nothing_on_is_named_by_those_that_barred_it(tmp_path: Path) -> None:
    for key, times in ((A, 2), (B, 1)):
        log = Log(key)
        log.state("start")
        for at in range(times):
            log.noted("pubsub_barred", 1, "pubsub:withholds", at, router=APP, lost=3, withheld=1, for_s=3600)
        log.write(tmp_path / name(key)[:4])
    found = audited(tmp_path)
    columns = ("router", "peer", "count", "lost", "withheld", "seq")
    rows = {tuple(row[column] for column in columns) for row in found["barred"]}
    assert rows == {(name(A), APP, 2, 6, 2, 2), (name(B), APP, 1, 3, 1, 2)}
    assert found["verdict"] == "attention" and f"{APP} takes messages of groups and passes none on" in told(
        found, "warning"
    )


def test_an_honest_fleet_names_nobody(tmp_path: Path) -> None:
    log = Log()
    log.state("start")
    log.noted("pubsub_repaired", 1, None, 1, router=APP, asks=1)
    assert audited(log.write(tmp_path))["barred"] == []


# -- arrival numbers --------------------------------------------------------------------------------------


def test_an_arrival_number_that_is_given_twice_is_told(tmp_path: Path) -> None:
    """Parcels that only overlap count too; of three acceptances with the same numbers, two are too many."""
    log = Log()
    log.accepted(1, range(5))
    log.accepted(11, range(10, 15))
    log.accepted(4, range(20, 30))
    log.accepted(13, range(30, 31))
    log.outward("delivered", [(1, 5)])
    log.outward("delivered", [(11, 5)], parcel=11)
    log.outward("delivered", [(4, 10)], parcel=4)
    log.outward("delivered", [(13, 1)], parcel=13)
    found = audited(log.write(tmp_path, [2]))
    [row] = found["again"]
    assert (row["count"], row["arrival"], row["first_seq"], row["seq"]) == (2 + 3 + 1, 4, 1, 11)
    assert found["verdict"] == "bad" and row["file"].endswith("events-0000000000000011.jsonl")
    assert "6 arrival numbers more than once: 4 first in event 1, and again in event 11 (" in told(found, "bad")


def test_arrival_numbers_may_have_gaps(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(5))
    log.accepted(16, range(10, 15))
    log.accepted(7, range(20, 21))
    assert audited(log.write(tmp_path))["again"] == []


# -- expired too early ------------------------------------------------------------------------------------


def expired(log: Log, at: float, ttl: int = DAY_S, ttl_s_max: int | None = 7 * DAY_S, **columns: Any) -> None:
    if ttl_s_max is not None:
        log.state("config", 0, ttl_s_max=ttl_s_max)
    log.accepted(1, range(3), at=0.7, ttl=ttl, **columns)
    log.outward("expired", [(1, 3)], at)


def test_expired_a_second_after_it_was_accepted_for_a_day_is_told(tmp_path: Path) -> None:
    log = Log()
    expired(log, 2)
    found = audited(log.write(tmp_path))
    [row] = found["early"]
    assert (row["count"], row["sure"], row["seq"], row["arrival"], row["recipient"]) == (3, 3, 2, 1, APP)
    assert row["due_ns"] - row["expired_t"] == (DAY_S - 1) * 10**9 - 3 * 10**8
    assert found["verdict"] == "bad" and "before its time was over" in told(found, "bad")


def test_expired_in_time_is_not_told(tmp_path: Path) -> None:
    """A message may expire from the full second on, when the shortest of ttl, expiry and the router's limit is over."""
    minute = (START - 1_577_836_800 * 10**9) // 60 // 10**9
    cases: list[tuple[float, dict[str, Any]]] = [
        (DAY_S, {}), (60, {"expiries": [minute + 1] * 3}), (9, {"ttl_s_max": 9}), (5, {"ttls": [5] * 3}),
    ]  # fmt: skip
    for number, (at, columns) in enumerate(cases):
        log = Log()
        expired(log, at, **columns)
        found = audited(log.write(tmp_path / str(number)), at=2 * DAY_S)
        assert found["early"] == [] and found["verdict"] == "good"


@pytest.mark.parametrize(
    ("kind", "reason", "at", "is_early"),
    [
        ("copy", "next-away", 60, False), ("copy", "next-away", 30, True), ("copy", "ttl-expired", 60, True),
        ("multicast", "next-away", 60, True),
    ],
)  # fmt: skip
def test_copy_for_a_router_that_is_away_is_judged_by_its_minute(
    kind: str, reason: str, at: float, is_early: bool, tmp_path: Path
) -> None:
    log = Log()
    log.state("config", 0, ttl_s_max=7 * DAY_S)
    log.accepted(1, range(3), at=0.7, ttl=DAY_S, ttls=[DAY_S, DAY_S, DAY_S - 1], kind=kind)
    log.outward("expired", [(1, 3)], at, reason=reason)
    found = audited(log.write(tmp_path))
    assert [row["count"] for row in found["early"]] == [3] * is_early
    if is_early and reason == "next-away" and kind == "copy":
        assert found["early"][0]["due_ns"] == START + int(60.7 * 10**9)


def test_of_messages_with_lives_of_their_own_each_is_judged(tmp_path: Path) -> None:
    log = Log()
    expired(log, 10, ttls=[9, 20, 9])
    [row] = audited(log.write(tmp_path))["early"]
    assert (row["count"], row["arrival"]) == (1, 2)


def test_where_the_log_does_not_say_how_long_a_message_may_live_it_is_a_warning(tmp_path: Path) -> None:
    log = Log()
    expired(log, 2, ttl_s_max=None)
    found = audited(log.write(tmp_path))
    assert (found["early"][0]["count"], found["early"][0]["sure"], found["verdict"]) == (3, 0, "attention")


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


@pytest.mark.parametrize("what", FOOTERS)
def test_a_footer_that_its_lines_contradict_is_told(what: str, tmp_path: Path) -> None:
    change, text = FOOTERS[what]
    log = Log()
    log.accepted(1, range(3))
    log.outward("delivered", [(1, 3)])
    log.state("stop", 2)
    log.write(tmp_path, [1])
    path = tmp_path / "events-0000000000000004.jsonl"
    signed_anew(path, log, change)
    found = audited(tmp_path)
    assert found["verdict"] == "bad" and [(one["path"], one["status"]) for one in found["files"]] == [
        (str(path), "bad")
    ]
    assert any(text in one for one in found["problems"]), found["problems"]
    assert "though its router signed it: footer and lines contradict each other" in told(found, "bad")
    assert states(found) == {"owed": 3, "unknown": 3} and found["residual"] == 0


def test_event_numbers_that_are_in_no_line_are_told(tmp_path: Path) -> None:
    """The footer and the name of the next file cover the missing numbers, so that only the lines show it."""
    log = Log()
    log.accepted(1, range(3))
    log.skip(4)
    log.outward("delivered", [(1, 3)])
    log.state("stop", 2)
    log.write(tmp_path, [2])
    found = audited(tmp_path)
    path = tmp_path / "events-0000000000000001.jsonl"
    assert found["verdict"] == "bad" and f"{path}:3: before this line is missing: events 4 to 7" in found["problems"]
    assert (found["owed"], found["strays"], found["holes"][0]["last_seq"]) == (0, 0, 8)


def test_two_lines_with_one_event_number_are_told(tmp_path: Path) -> None:
    """The sums fit, because as many numbers are missing as are doubled."""
    log = Log()
    log.accepted(1, range(3))
    log.outward("delivered", [(1, 3)])
    log.seq -= 1
    log.state("join", 1)
    log.skip(1)
    log.state("stop", 2)
    log.write(tmp_path)
    found = audited(tmp_path)
    assert found["verdict"] == "bad"
    assert any("the sequence number 4 where 5 should be" in one for one in found["problems"])


# -- what a neighbour is said to have brought -------------------------------------------------------------


class Hop:
    """B brings A two messages; only A reports `x` in between; B hears that A has both."""

    def __init__(self, **columns: Any) -> None:
        self.taker, self.giver = Log(A), Log(B)
        self.giver.state("start", -9)
        self.giver.accepted(1, ["first", "last"], [name(A)], at=1)
        self.taker.accepted(1, ["first"], [], at=2, peer=name(B))
        unicast = {"kind": "unicast", "group": None, "source": APP, "destination": OTHER_APP, "peer": name(B)}
        self.odd = self.taker.accepted(2, ["x"], [], at=3, **unicast | columns)
        self.taker.accepted(3, ["last"], [], at=4, peer=name(B))

    def audited(self, directory: Path, *, hears: bool = True) -> dict[str, Any]:
        if hears:
            self.giver.outward("acked", [(1, 2)], 5, recipient=name(A))
        self.giver.state("stop", LATE)
        return audited(self.taker.write(directory / "taker"), self.giver.write(directory / "giver"), at=LATE + 1)


def test_a_message_that_the_neighbours_log_does_not_know_is_told(tmp_path: Path) -> None:
    found = Hop().audited(tmp_path)
    [row] = found["unsent"]
    assert (row["router"], row["peer"], row["count"], row["seq"]) == (name(A), name(B), 1, 2)
    assert row["id"] == message_id("x") and row["file"].startswith(str(tmp_path / "taker"))
    assert found["verdict"] == "bad" and "One of the two logs is wrong" in told(found, "bad")


def test_what_may_be_so_is_not_told(tmp_path: Path) -> None:
    """A difference is not reported if the neighbour signed the message, if it comes after the known end of its log or
    before its begin, or if a carrier may have brought it."""
    signed = Hop(source=name(B))
    after = Hop()
    after.taker.lines[1:] = [replace(after.taker.lines[2], seq=2), replace(after.taker.lines[1], seq=3)]
    carried = Hop(kind="multicast", group=message_id("group"), source=None, destination=None)
    carried.giver.accepted(
        9, ["carrier"], [name(A)], kind="unicast", group=None, source=APP, destination=name(A), peer=APP
    )
    early = Hop()
    early.taker.lines[1] = replace(early.odd, t=START - 60 * 10**9)
    for number, hop in enumerate((signed, after, carried, early)):
        assert hop.audited(tmp_path / str(number))["unsent"] == [], number
    assert Hop().audited(tmp_path / "unheard", hears=False)["unsent"] == []


def test_of_multicasts_those_are_told_that_no_carrier_can_have_brought(tmp_path: Path) -> None:
    hop = Hop(kind="multicast", group=message_id("group"), source=None, destination=None)
    [row] = hop.audited(tmp_path)["unsent"]
    assert row["count"] == 1


def test_of_a_neighbour_with_a_hole_in_its_log_nothing_is_told(tmp_path: Path) -> None:
    hop = Hop()
    hop.giver.lines[:1] = []
    assert hop.audited(tmp_path)["unsent"] == []


@pytest.mark.parametrize(
    ("late_s", "is_doubted", "kind", "count"),
    [(2 * DAY_S, False, "unicast", 1), (DAY_S, False, "unicast", 0), (2 * DAY_S, True, "unicast", 0),
     (2 * DAY_S, False, "multicast", 0)],
)  # fmt: skip
def test_of_a_pruned_log_what_it_may_have_had_before_is_not_told(
    late_s: int, is_doubted: bool, kind: str, count: int, tmp_path: Path
) -> None:
    taker, giver = Log(A), Log(B)
    giver.state("start", -9)
    giver.accepted(1, ["quick"], [name(A)], at=1, ttl=9 * DAY_S)
    giver.outward("acked", [(1, 1)], 3, recipient=name(A))
    if is_doubted:
        giver.state("clock_step", 4, by_s=0, doubted=False)
    giver.accepted(2, ["last"], [name(A)], at=late_s + 1)
    giver.outward("acked", [(2, 1)], late_s + 5, recipient=name(A), parcel=2)
    taker.accepted(1, ["quick"], [], at=2, peer=name(B))
    ends: dict[str, Any] = {"group": None, "source": APP, "destination": OTHER_APP} if kind == "unicast" else {}
    taker.accepted(2, ["x"], [], at=late_s + 3, peer=name(B), kind=kind, **ends)
    taker.accepted(3, ["last"], [], at=late_s + 4, peer=name(B))
    there = pruned(giver, tmp_path / "giver", [1], 1)
    found = audited(taker.write(tmp_path / "taker"), there, at=late_s + LATE)
    assert sum(row["count"] for row in found["unsent"]) == count
