"""The audit compares what routers say of each other's doors with what these turned away, and names who is contradicted.

The logs of all cases are audited at once: a case is two routers, of which the first is judged.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from samples.audit_logs import APP, OTHER_APP, name
from samples.one_log import between
from samples.two_logs import blamed, clock_moved, flooded, of_a_clock_ahead, refused_here, said

from router.core.wire.crypto import SigningKey


def test_more_turned_away_than_a_neighbour_handed_over_is_not_borne_out(tmp_path: Path) -> None:
    cases = {
        "flood of nobody": flooded(500),
        "few": flooded(90),
        "handed over": flooded(500, 450),
        "the other log ends before": flooded(500, end=60),
        "of an app": flooded(500, peer=APP),
    }
    found, summary = between(cases, tmp_path)
    assert found == {case: [("not-handed", 500)] if case == "flood of nobody" else [] for case in cases}
    [told] = [one for one in summary["findings"] if "claimed, not borne out" in one["text"]]
    assert told["level"] == "info" and "Do not block that neighbour" in told["remedy"]


@pytest.mark.parametrize("set_at", [0, 10])
def test_the_log_of_a_clock_ahead_ends_before_what_it_does_not_tell(set_at: int, tmp_path: Path) -> None:
    ends = {15: [], 60: [], 610: [], 640: [("not-handed", 500)]}
    cases = {f"ends at {end}": clock_moved(of_a_clock_ahead(end), set_at, 3000) for end in ends}
    found, summary = between(cases, tmp_path)
    assert [*found.values()] == [*ends.values()]
    assert sorted(row["broken"] for row in summary["custody"]) == [0, 1, 1, 1], "only the first log ends before it"


def test_more_refused_than_a_neighbour_turned_away_is_not_borne_out(tmp_path: Path) -> None:
    told = {
        "refused by nobody": blamed(150),
        "turned away, and fewer": blamed(150, 50),
        "known there": blamed(150, known=150),
        "started long before": blamed(150, started=(900,)),
    }
    quiet = {
        "few": blamed(90),
        "turned away": blamed(150, 51),
        "turned away of nobody by name": blamed(150, 51, peer=None),
        "for a reason of its own": blamed(150, reason="queue-full-recipient"),
        "told as known": blamed(150, reason="duplicate"),
        "the other log ends before": blamed(150, end=2500),
        "started soon before": blamed(150, started=(1900,)),
        "started soon after": blamed(150, started=(2100,)),
        "killed": blamed(150, stopped=False),
        "renewed": blamed(150, steps=[said("renewal", 3000, old=APP, new=OTHER_APP, service="router")]),
    }
    found, summary = between({**told, **quiet}, tmp_path)
    assert {case: [one for one in rows if one[0] == "not-turned-away"] for case, rows in found.items()} == {
        **{case: [("not-turned-away", 150)] for case in told},
        **{case: [] for case in quiet},
    }
    [first, *_] = [one for one in summary["findings"] if "that they ended so is claimed" in one["text"]]
    assert first["level"] == "warning" and "is not true" in first["remedy"]


def test_who_turned_messages_away_by_its_own_door_is_named(tmp_path: Path) -> None:
    borne_out = {
        "turned away": refused_here({"no-subscribers": 1}),
        "turned more away": refused_here({"no-subscribers": 7}, "another", "a third"),
    }
    contradicted = {
        "no line at its door": refused_here({}),
        "turned away for another reason": refused_here({"not-authorised": 1}),
        "turned another away": refused_here({"no-subscribers": 1}, "another", is_named=False),
        "turned seven away by no name": refused_here({"no-subscribers": 7}, is_named=False),
    }
    found, summary = between({**borne_out, **contradicted}, tmp_path)
    assert {case for case, rows in found.items() if ("joined-there", 1) in rows} == {*contradicted}
    others = {name(SigningKey(f"b{case}".encode().ljust(32)[:32])): case for case in found}
    told = [row for row in summary["claims"] if row["claim"] == "joined-here"]
    assert {others[row["router"]] for row in told} == {*borne_out} and {row["count"] for row in told} == {1}
    for row in told:
        [line] = (one for one in summary["findings"] if f"The router {row['router']} turned 1 message" in one["text"])
        assert line["level"] == "bad" and f"or {row['peer']} tells another group of these" in line["remedy"]
        assert f"(event {row['accepted_seq']} (" in line["text"] and f"is event {row['seq']} (" in line["text"]
        assert row["accepted_file"] and row["file"] and row["id"]
