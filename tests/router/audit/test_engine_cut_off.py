"""A neighbour's false word that a log reaches further than its files excuses nothing of what stands in that log, and a
log of which the end is missing in truth accuses nobody.

The logs of all cases are audited at once: a case is two routers, of which the first is judged.
"""

from __future__ import annotations

from pathlib import Path

from samples.audit_logs import LATE, Log, audited, name
from samples.one_log import between
from samples.ordered_logs import (
    BEFORE,
    BEYOND,
    BOTH_WAYS,
    GAP,
    HEARD,
    LATER,
    NAMED,
    ONWARD,
    ORDERED,
    REFUSED,
    UNREAD,
    by_order,
    present,
)
from samples.two_logs import (
    NAMES_LEAVES,
    Pair,
    asked_of_another,
    blamed,
    copied_on,
    cut_off,
    handed,
    refused_all,
    refused_here,
    told_beyond,
    unread,
)

from router.core.wire.crypto import SigningKey

JOINED = unread(2, **NAMES_LEAVES)
CLAIMS = ("refused-there", "joined-there", "linked-there", "no-history", "not-turned-away", "joined-here")
Told = dict[str, tuple[Pair, str | None]]
"""Pairs of logs, and the claim of these that the audit must tell."""


def holed(write: Pair) -> Pair:
    """Let the second log lack an event before its last as well."""

    def write_holed(here: Log, there: Log) -> None:
        write(here, there)
        there.state("log_gap", LATE + 2, missing=1)

    return write_holed


def found(cases: Told, tmp_path: Path) -> dict[str, str | None]:
    """Return the claim of `CLAIMS` about each pair."""
    rows, summary = between({case: write for case, (write, _) in cases.items()}, tmp_path)
    told = {case: sorted({claim for claim, _ in own if claim in CLAIMS}) for case, own in rows.items()}
    names = {name(SigningKey(f"b{case}".encode().ljust(32)[:32])): case for case in cases}
    for row in summary["claims"]:
        if row["claim"] == "joined-here":
            told[names[row["router"]]].append("joined-here")
    assert all(len(own) < 2 for own in told.values()), told
    return {case: next(iter(own), None) for case, own in told.items()}


def test_a_false_head_excuses_no_claim_that_rests_on_lines_of_the_other_log(tmp_path: Path) -> None:
    cases: Told = {
        "refused": (handed, "refused-there"),
        "all refused": (refused_all, "refused-there"),
        "a copy": (copied_on("refused"), "refused-there"),
        "joined": (JOINED, "joined-there"),
        "joined, by its own door": (refused_here({"no-subscribers": 1}, **NAMES_LEAVES), "joined-here"),
        "not turned away": (blamed(150), "not-turned-away"),
        "not accepted before": (lambda here, there: handed(here, there, at=60), None),
        "left": (unread(2, 30, **NAMES_LEAVES), None),
        "leaves that are only counted may be missing": (unread(2), None),
        "history may be of before": (asked_of_another(50, 60), None),
    }
    told = found({case: (told_beyond(write), claim) for case, (write, claim) in cases.items()}, tmp_path)
    assert told == {case: claim for case, (_, claim) in cases.items()}


def test_a_false_head_excuses_no_claim_that_order_tells(tmp_path: Path) -> None:
    quiet = {
        "what it handed over may be of before": by_order(GAP, HEARD, BOTH_WAYS),
        "refused, and nothing there is later": by_order(REFUSED, LATER),
        "leaves that are only counted may be missing": by_order(present(2), BEFORE, UNREAD, ONWARD),
        "history may be of before": ORDERED["asked, a clock was set"],
    }
    cases: Told = {case: (told_beyond(write), None) for case, write in quiet.items()}
    told = {case: (write, f"{case.split(',')[0]}-there") for case, write in BEYOND.items()}
    assert found(cases | told, tmp_path) == {case: claim for case, (_, claim) in (cases | told).items()}


def test_a_log_whose_end_is_missing_accuses_nobody_of_what_may_be_in_it(tmp_path: Path) -> None:
    cases: Told = {
        "refused after a restore": (cut_off(handed, 45), None),
        "left": (cut_off(JOINED, 45), None),
        "turned away": (cut_off(blamed(150), 2001), None),
        "refused after a restore, by order": (cut_off(by_order(REFUSED, LATER, ONWARD), 45), None),
        "left, by order": (cut_off(by_order(NAMED, present(2), BEFORE, UNREAD, ONWARD), 45), None),
        "a hole before": (told_beyond(holed(handed)), None),
        "a hole before, joined": (told_beyond(holed(JOINED)), None),
        "a hole before, by order": (told_beyond(holed(by_order(REFUSED, LATER, ONWARD))), None),
    }
    assert found(cases, tmp_path) == {case: claim for case, (_, claim) in cases.items()}


def test_where_the_end_of_a_log_is_missing_is_among_the_limits(tmp_path: Path) -> None:
    here, there = (Log(SigningKey(one * 32)) for one in (b"x", b"y"))
    told_beyond(JOINED)(here, there)
    for log in (here, there):
        log.write(tmp_path / name(log.key)[:8])
    limits = audited(tmp_path, at=3 * LATE)["limits"]
    end = there.lines[-1].seq + 1
    [text] = [
        text for text in limits if f"{name(there.key)} has a hole behind its last event, from event {end} on" in text
    ]
    assert "`joined-there`" in text and "`no-history`" in text
