"""The audit of small logs, by value: states, counts, examples, times.

The logs of most cases are audited at once: a case is a router of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from sabotage.mixture import summed_at_the_door
from samples.audit_logs import APP, LATE, MINUTE, OTHER_APP, SECOND, START, A, B, Log, audited, message_id, name, states
from samples.judged_logs import Judged, Write, ids, judged, log_of

from router.audit import engine
from router.audit.database import AuditFailed
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.log.segment import file_name
from spark_analytics.judgement.schema import ENDS


def ended(log: Log) -> Log:
    """Add a line long after everything is due, so that the log must hold all ends."""
    log.state("stop", LATE)
    return log


CASES: dict[str, Write] = {}
"""What writes the logs that are audited together, by its name."""


def case(write: Write) -> Write:
    CASES[write.__name__] = write
    return write


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judged(CASES, tmp_path_factory.mktemp("cases"))


def ending(event: str) -> Write:
    def write(log: Log, directory: Path) -> None:
        log.accepted(1, ids(log, 3))
        log.outward(event, [(1, 3)])
        ended(log).write(directory)

    return write


CASES |= {event: ending(event) for event in ENDS}


def test_each_end_is_a_state(found: Judged) -> None:
    assert {event: found.states(event) for event in ENDS} == {event: {"owed": 3, event: 3} for event in ENDS}


@case
def no_end(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 40), [APP, OTHER_APP])
    log.outward("delivered", [(1, 34), (36, 5)])
    log.outward("delivered", [(1, 40)], recipient=OTHER_APP)
    ended(log).write(directory)


def test_what_has_no_end_is_unaccounted_and_named(found: Judged) -> None:
    assert found.states("no_end") == {"owed": 80, "delivered": 79, "unaccounted": 1}
    [lost] = found.rows("lost", "no_end")
    lacking = message_id(ids(found.logs["no_end"], 40)[34])
    assert (lost["parcel"], lost["recipient"], lost["count"], lost["id"]) == (1, APP, 1, lacking)
    assert found.told("no_end", "bad")


def until(end: float) -> Write:
    def write(log: Log, directory: Path) -> None:
        log.accepted(1, ids(log, 2), ttl=60)
        log.state("stop", end)
        log.write(directory)

    return write


CASES |= {"pending": until(659.9), "unaccounted": until(660)}


def test_pending_until_ten_minutes_after_it_was_due(found: Judged) -> None:
    for state in ("pending", "unaccounted"):
        assert found.states(state) == {"owed": 2, state: 2}


@case
def expiring(log: Log, directory: Path) -> None:
    line = log.accepted(1, ids(log, 1), ttl=10**6)
    minute = (line.t // SECOND - 1_577_836_800) // 60
    log.lines[-1] = replace(line, expiries=[minute + 1])
    log.state("stop", 60 + 600)
    log.write(directory)


def test_the_sooner_of_ttl_and_expiry_makes_it_due(found: Judged) -> None:
    assert found.states("expiring") == {"owed": 1, "unaccounted": 1}


@case
def recorded_gap(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 2))
    log.state("log_gap", n=4, missing=4)
    ended(log).write(directory)


def test_a_gap_that_the_log_records_is_a_hole(found: Judged) -> None:
    assert found.states("recorded_gap") == {"owed": 2, "unknown": 2}
    assert [(hole["first_seq"], hole["last_seq"]) for hole in found.rows("holes", "recorded_gap")] == [(3, 6)]


@case
def several_ends(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 4))
    log.outward("expired", [(1, 3)])
    log.outward("refused", [(2, 2)])
    log.outward("delivered", [(3, 2)])
    ended(log).write(directory)


def test_several_ends_count_once_by_precedence_and_are_contradictions(found: Judged) -> None:
    assert found.states("several_ends") == {"owed": 4, "delivered": 2, "refused": 1, "expired": 1}
    assert found.totals("several_ends")["contradictions"] == 2


@case
def again(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 5))
    log.outward("forwarded", [(1, 5)])
    log.outward("forwarded", [(2, 2)])
    log.outward("deferred", [(2, 2)])
    log.outward("delivered", [(1, 5)])
    log.outward("delivered", [(5, 1)])
    ended(log).write(directory)


def test_deliveries_and_attempts_beyond_the_first(found: Judged) -> None:
    totals = found.totals("again")
    assert (totals["deliveries"], totals["duplicates"], totals["redelivered"], totals["deferred"]) == (6, 1, 2, 2)
    assert found.states("again") == {"owed": 5, "delivered": 5}


@case
def strays(log: Log, directory: Path) -> None:
    log.accepted(10, ids(log, 3))
    log.outward("delivered", [(9, 6)], parcel=10)  # one before the parcel, two behind it
    log.outward("acked", [(10, 2)], parcel=10, recipient=OTHER_APP)
    log.outward("expired", [(70, 4)], parcel=70)
    log.outward("forwarded", [(70, 4)], parcel=70)
    ended(log).write(directory)


def test_ends_that_belong_to_no_unit_are_strays(found: Judged) -> None:
    assert found.states("strays") == {"owed": 3, "delivered": 3}
    totals = found.totals("strays")
    assert totals["strays"] == 3 + 2 + 4
    assert totals["contradictions"] == totals["duplicates"] == 0


@case
def endless_range(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 3))
    log.outward("delivered", [(2, 10**10 - 1)])
    ended(log).write(directory)


def test_a_range_without_end_costs_nothing(found: Judged) -> None:
    assert found.states("endless_range") == {"owed": 3, "delivered": 2, "unaccounted": 1}
    assert found.totals("endless_range")["strays"] == 10**10 - 1 - 2


@case
def tail(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 2))
    log.outward("delivered", [(1, 1)])
    log.outward("delivered", [(2, 1)])
    log.state("stop", LATE)
    sealed = Log(log.key)
    sealed.lines = log.lines[:2]
    sealed.write(directory)
    log.write_tail(directory, 1)


def test_a_tail_counts_what_no_segment_has(found: Judged) -> None:
    assert found.states("tail") == {"owed": 2, "delivered": 2}
    assert found.totals("tail")["deliveries"] == 2


@case
def changed(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 3))
    log.outward("delivered", [(1, 3)])
    second = max(ended(log).write(directory, [1]).iterdir())
    second.write_bytes(second.read_bytes().replace(b'"delivered"', b'"dropped"', 1))


def test_a_file_that_was_changed_counts_nowhere(found: Judged) -> None:
    assert found.states("changed") == {"owed": 3, "unknown": 3}
    [second] = [one["path"] for one in found.rows("files", "changed") if one["status"] == "bad"]
    assert second.endswith(file_name(4)) and second in " ".join(found.found["problems"])
    assert found.found["verdict"] == "bad"


@case
def refused_by_services(log: Log, directory: Path) -> None:
    summed_at_the_door(log)
    ended(log).write(directory)


def test_what_services_and_the_router_refused_counts_as_abuse_by_neighbour_or_network(found: Judged) -> None:
    rows = {
        (row["event"], row["peer"], row["prefix"], row["signer"], row["reason"]): row["count"]
        for row in found.rows("abuse", "refused_by_services")
    }
    assert rows == {
        ("dial_refused", None, "45.0.0.0/24", None, "dial:budget"): 997,
        ("discovery_refused", None, "192.0.2.0/24", None, "lan:flood"): 50,
        ("discovery_refused", APP, None, None, "bad-signature"): 2,
        ("pubsub_refused", None, None, None, "rate-limited"): 3,
        ("refused", None, None, None, "bad-signature"): 4000,
        ("duplicate", APP, None, None, "duplicate"): 7,
    }
    [unknown] = found.rows("quality", "refused_by_services")
    assert (unknown["check"], unknown["count"]) == ("unknown event word", 1), "no service wrote it"


@case
def unknown_words(log: Log, directory: Path) -> None:
    log.state("config", queue_messages_max=100)
    log.accepted(1, ids(log, 8), at=0)
    log.outward("delivered", [(1, 3)], at=61, depth=5)
    log.state("route_add", destination=APP, neighbour=OTHER_APP)
    log.state("route_del", destination=APP, neighbour=OTHER_APP)
    log.turned("refused", 7, "bad-signature")
    log.outward("teleported", [(1, 8)], parcel=1)
    log.state("guestbook_signed", service="guestbook", page=1)
    ended(log).write(directory)


def test_queues_routes_abuse_and_unknown_words(found: Judged) -> None:
    router = name(found.logs["unknown_words"].key)
    [queue] = found.rows("queues", "unknown_words")
    minute = START // MINUTE
    told = [tuple(row[name] for name in ("window", "added", "ended", "open", "depth_max")) for row in queue["windows"]]
    assert told == [(minute, 8, 0, 8, None), (minute + 1, 0, 3, 5, 5)]
    assert queue["limit"] == 100
    assert found.rows("flaps", "unknown_words") == [{"router": router, "subject": APP, "changes": 2}]
    abuse = found.rows("abuse", "unknown_words")
    assert [(row["peer"], row["reason"], row["count"]) for row in abuse] == [(APP, "bad-signature", 7)]
    assert found.rows("quality", "unknown_words") == [{"check": "unknown event word", "router": router, "count": 1}]
    assert {"router": router, "event": "teleported", "lines": 1, "count": 8} in found.found["events"]
    assert found.states("unknown_words") == {"owed": 8, "delivered": 3, "unaccounted": 5}


@case
def busy_apps(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 1))
    for event in ("link_up", "link_down"):
        log.state(event, peer=APP, link=2, standing="local")
        log.state(event, peer=OTHER_APP, link=3, standing="peer")
    log.state("join", group=APP, subscriber=APP)
    ended(log).write(directory)


def test_apps_that_come_and_go_and_who_joins_a_group_are_not_restless(found: Judged) -> None:
    assert [(row["subject"], row["changes"]) for row in found.rows("flaps", "busy_apps")] == [(OTHER_APP, 2)]
    routes = {row["event"]: row["count"] for row in found.rows("routes", "busy_apps")}
    assert routes == {"link_up": 2, "link_down": 2, "join": 1}


@case
def summed_links(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 2))
    log.state("link_up", peer=APP, link=2)
    log.lines.append(replace(log.state("link_up", standing="stranger", times=900), count=900))
    del log.lines[-2]
    log.outward("delivered", [(1, 2)])
    ended(log).write(directory)


def test_links_that_were_summed_count_as_often_and_flap_nowhere(found: Judged) -> None:
    assert [(row["event"], row["count"]) for row in found.rows("routes", "summed_links")] == [("link_up", 901)]
    assert [(row["subject"], row["changes"]) for row in found.rows("flaps", "summed_links")] == [(APP, 1)]
    router = name(found.logs["summed_links"].key)
    assert {"router": router, "event": "link_up", "lines": 2, "count": 901} in found.found["events"]


@case
def of_another(log: Log, directory: Path) -> None:
    log.state("start")
    log.accepted(1, ids(log, 2))
    log.lines[1] = replace(log.lines[1], router=name(A))
    ended(log).write(directory)


def test_a_segment_with_a_line_of_another_router_than_signed_it_is_bad(found: Judged) -> None:
    [file] = found.rows("files", "of_another")
    assert file["status"] == "bad"
    said = f":3: an event of the router {name(A)} in the log of {name(found.logs['of_another'].key)}"
    assert [said in text for text in found.found["problems"] if file["path"] in text] == [True]


@case
def alarms(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 3))
    log.outward("delivered", [(1, 3)])
    log.state("alarm", 2, alarm="unaccounted", state="raised", since_s=17, number=2, peer=APP, arrival=9)
    log.state("alarm", 3, alarm="clock-doubted", state="raised", since_s=18, number=600)
    log.state("alarm", 4, alarm="unaccounted", state="raised", since_s=17, number=3, peer=APP)
    log.state("alarm", 5, alarm="clock-doubted", state="over", since_s=18, number=600)
    ended(log).write(directory)


def test_an_alarm_of_a_router_about_itself_is_told_until_it_is_over(found: Judged) -> None:
    router = name(found.logs["alarms"].key)
    assert found.rows("alarms", "alarms") == [
        {"router": router, "alarm": "unaccounted", "peer": APP, "seq": 7, "number": 3, "since_s": 17}
    ]
    assert found.told("alarms", "bad")


def test_what_is_no_file_is_told_and_takes_no_watermark_away(tmp_path: Path) -> None:
    junk: list[Callable[[Path], None]] = [os.mkfifo, lambda path: path.symlink_to("/nonexistent"), Path.mkdir]
    for number in range(len(junk)):
        log = log_of(f"junk {number}")
        log.accepted(1, ids(log, 3))
        log.outward("delivered", [(1, 3)])
        ended(log).write(tmp_path / str(number))
    before = audited(tmp_path)
    for number, make in enumerate(junk):
        make(tmp_path / str(number) / file_name(300))
    found = audited(tmp_path)
    assert found["watermark"] == before["watermark"] is not None
    assert [one["whole"] for one in found["logs"]] == [True] * 3
    for number in range(len(junk)):
        path = str(tmp_path / str(number) / file_name(300))
        assert any(path in problem for problem in found["problems"]), found["problems"]


def test_a_hole_behind_the_acceptance_makes_it_unknown(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(2))
    log.outward("delivered", [(1, 1)])
    log.skip(5)
    hole = log.seq - 5
    log.accepted(3, [3], at=2)
    directory = ended(log).write(tmp_path, [2])
    found = audited(directory)
    assert states(found) == {"owed": 3, "delivered": 1, "unknown": 1, "unaccounted": 1}
    assert found["spans"] == [{"router": name(A), "hole_first": hole, "unknown": 1}]
    assert found["watermark"] is None


@pytest.mark.parametrize("routers_with_bits", [63, 0])
def test_an_id_accepted_again_and_delivered_again_is_a_duplicate(
    routers_with_bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BITS_OF_ROUTERS", routers_with_bits)
    log = Log()
    log.accepted(1, ["x", "y"])
    log.accepted(3, ["x"], [APP, OTHER_APP])
    for parcel, count in ((1, 2), (3, 1)):
        log.outward("delivered", [(parcel, count)], parcel=parcel)
    log.outward("delivered", [(3, 1)], parcel=3, recipient=OTHER_APP)
    found = audited(ended(log).write(tmp_path))
    assert (found["messages"], found["accepted_again"], found["duplicates"]) == (2, 1, 1)


@pytest.mark.parametrize("routers_with_bits", [63, 0])
def test_copies_that_a_service_sends_on_are_counted_apart_and_are_no_acceptances_again(
    routers_with_bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BITS_OF_ROUTERS", routers_with_bits)
    here, there = Log(A), Log(B)
    here.accepted(1, ["x", "y"], [APP, OTHER_APP])
    for recipient in (APP, OTHER_APP):
        here.outward("delivered", [(1, 2)], recipient=recipient)
    for first, recipient in ((3, name(B)), (5, message_id("a third router"))):
        here.accepted(first, ["x", "y"], [recipient], at=0.5, kind="copy", peer=OTHER_APP)
        here.outward("acked", [(first, 2)], recipient=recipient, parcel=first)
    there.accepted(1, ["x", "y"], at=0.8, peer=name(A))
    there.outward("delivered", [(1, 2)], at=1.2)
    there.state("pubsub_repaired", 1.2, service="pubsub", asks=1)
    for number, log in enumerate((here, there)):
        ended(log).write(tmp_path / str(number))
    found = audited(tmp_path)
    assert {"router": name(B), "event": "pubsub_repaired", "lines": 1, "count": 1} in found["events"], (
        "beside its delivery"
    )
    assert states(found) == {"owed": 10, "delivered": 6, "acked": 4} and found["residual"] == 0
    assert (found["messages"], found["copies"], found["accepted_again"], found["duplicates"]) == (2, 4, 0, 0)
    assert [(row["followed"], row["broken"]) for row in found["custody"]] == [(2, 0)]
    assert found["verdict"] == "good"


def test_a_copy_of_a_log_counts_once(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(3))
    log.outward("delivered", [(1, 3)])
    ended(log)
    found = audited(log.write(tmp_path / "a"), log.write(tmp_path / "b"))
    assert states(found) == {"owed": 3, "delivered": 3}
    assert found["duplicates"] == 0


def test_a_fork_counts_nowhere_and_is_bad(tmp_path: Path) -> None:
    one, two = Log(), Log()
    for log, end in ((one, "delivered"), (two, "expired")):
        log.accepted(1, range(3))
        log.outward(end, [(1, 3)])
    found = audited(ended(one).write(tmp_path / "one"), ended(two).write(tmp_path / "two"))
    assert states(found) == {}
    assert found["verdict"] == "bad"
    assert {file["status"] for file in found["files"]} == {"fork"}


def test_the_head_that_a_neighbour_saw_shows_a_cut_tail(tmp_path: Path) -> None:
    log, witness = Log(), Log(B)
    log.accepted(1, range(2))
    log.state("stop", LATE)
    whole = log.write(tmp_path / "a")
    witness.state("link", peer=name(A), head_seq=9, head_digest="ab" * 32)
    found = audited(whole, ended(witness).write(tmp_path / "b"))
    assert states(found) == {"owed": 2, "unknown": 2}


def test_waits_by_one_clock_or_by_the_wall(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(3), mono=5)
    log.outward("delivered", [(1, 1)], mono=5 + 2_000_000)
    log.outward("delivered", [(2, 1)], at=3, boot="1" * 32, mono=6)
    log.outward("delivered", [(3, 1)], at=-1, boot="1" * 32, mono=6)
    found = audited(ended(log).write(tmp_path))
    assert found["latency_ms"]["max"] == 3000
    assert found["latency_ms"]["p50"] == pytest.approx(2, rel=1 / 128)
    assert found["quality"] == [{"check": "negative wait", "router": name(A), "count": 1}]


def test_times_from_the_future_are_now_and_counted(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(2), at=100)
    log.outward("delivered", [(1, 2)], at=500)
    found = audited(log.write(tmp_path), at=200)
    assert found["future"] == [{"router": name(A), "lines": 1, "latest_t": START + 500 * SECOND}]
    assert found["watermark"] == "2025-02-19T21:23:20+00:00"
    assert states(found) == {"owed": 2, "delivered": 2}


def test_only_what_was_accepted_in_the_time_asked_for(tmp_path: Path) -> None:
    log = Log()
    for parcel in (1, 2, 3):
        log.accepted(parcel, [parcel], at=100 * parcel)
        log.outward("delivered", [(parcel, 1)], parcel=parcel, at=350)
    found = audited(ended(log).write(tmp_path), since_ns=START + 200 * SECOND, until_ns=START + 300 * SECOND)
    assert states(found) == {"owed": 1, "delivered": 1}
    assert (found["messages"], found["strays"]) == (1, 0)


def test_only_what_was_turned_away_in_the_time_asked_for(tmp_path: Path) -> None:
    log = Log()
    for at, count in ((100, 1), (250, 20), (350, 300)):
        log.turned("refused", count, "bad-signature", at=at)
        log.accepted(at, [at], at=at)
        log.outward("refused", [(at, 1)], parcel=at, reason="left", at=at)
    found = audited(ended(log).write(tmp_path), since_ns=START + 200 * SECOND, until_ns=START + 300 * SECOND)
    assert [row["count"] for row in found["abuse"]] == [20]
    assert {(row["reason"], row["at_door"]): row["count"] for row in found["reasons"]} == {
        ("bad-signature", True): 20, ("left", False): 3,
    }  # fmt: skip


def test_what_is_told_by_the_minute_of_a_short_time_in_a_long_log_is_bounded(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(5), at=0)
    for day in range(300):
        log.accepted(10 + day, [10 + day], at=day * 86_400 + 120)
        log.outward("delivered", [(10 + day, 1)], at=day * 86_400 + 300, parcel=10 + day)
        log.state("route_add", day * 86_400 + 300, destination=APP, neighbour=OTHER_APP)
    log.outward("delivered", [(1, 5)], at=300 * 86_400)
    since_ns, minute = START + 100 * 86_400 * SECOND, START // MINUTE + 100 * 1440
    directory, last = log.write(tmp_path), minute + 2 + 120
    found = audited(directory, at=301 * 86_400, since_ns=since_ns, until_ns=since_ns + 600 * SECOND)
    [queue] = found["queues"]
    told = [(row["window"], row["added"], row["ended"], row["open"]) for row in queue["windows"]]
    assert told == [(minute + 1, 105, 100, 5), (minute + 2, 1, 0, 6), (minute + 5, 0, 1, 5), (last, 199, 204, 0)]
    assert [(row["window"], row["count"]) for row in found["routes"]] == [(minute + 5, 1)]


def test_too_little_memory_is_said(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(3))
    with pytest.raises(AuditFailed, match="--memory"):
        audit(list_logs([ended(log).write(tmp_path)]), AuditSpan(START), memory_bytes=2_000_000)
