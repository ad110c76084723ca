"""A reason for which a message ended is one that the segment's header names, or that all routers have.

The logs of most cases are audited at once: a case is a router of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from samples.audit_logs import APP, OTHER_APP, Log, audited, message_id, name
from samples.judged_logs import Judged, Write, ids, judged

from router.audit.engine import evidence_of
from router.audit.export.logs import export
from router.audit.export.pseudonyms import Pseudonyms
from router.audit.listing import list_logs

OWN, OTHERS = ["invite:ended", "foo:full"], ["invite:ended"]


CASES: dict[str, Write] = {}


def case(write: Write) -> Write:
    CASES[write.__name__] = write
    return write


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Return the audit of the logs of all cases: none has a reason that is doubted."""
    return judged(CASES, tmp_path_factory.mktemp("cases"))


def end(log: Log, *reasons: str) -> Log:
    """Let one message end for each of the reasons, each in a parcel of its own."""
    for number, (reason, one) in enumerate(zip(reasons, ids(log, len(reasons)), strict=True), 1):
        log.accepted(number, [one])
        log.outward("refused", [(number, 1)], parcel=number, reason=reason)
    return log


def claims(found: Mapping[str, Any], log: Log) -> list[tuple[str, str, int, int]]:
    """Return the claims about a log: claim, peer, count, and the event of the first."""
    names = ("claim", "peer", "count", "seq")
    return [tuple(row[name] for name in names) for row in found["claims"] if row["router"] == name(log.key)]


def doubts(found: Mapping[str, Any]) -> list[str]:
    texts = [one["text"] for one in found["findings"] if one["level"] == "warning"]
    return [text for text in texts if "does not know" in text]


def reasons_of(found: Judged, case: str) -> dict[str, bool]:
    """Return whether each reason is known of those that a case's router wrote."""
    return {row["reason"]: row["known"] for row in found.rows("reasons", case)}


@case
def unnamed(log: Log, directory: Path) -> None:
    end(log, "left", "foo:full", "foo:bar", "foo:bar", "not-today")
    log.accepted(6, ids(log, 1, "two "), [APP, OTHER_APP])
    log.outward("expired", [(6, 1)], recipient=OTHER_APP, parcel=6, reason="bar:foo")
    log.write(directory, (), [OWN])


def test_a_reason_that_the_header_does_not_name_is_told_with_its_message(found: Judged) -> None:
    log = found.logs["unnamed"]
    assert claims(found.found, log) == [("unknown-reason", APP, 3, 6), ("unknown-reason", OTHER_APP, 1, 12)]
    row = found.rows("claims", "unnamed")[0]
    assert row["id"] == message_id(ids(log, 3)[2]) and row["accepted_seq"] == 5
    first, _, *_ = found.told("unnamed", "bad").splitlines()
    assert "3 messages ended for " in first and "for a reason that neither the router nor its services have" in first
    assert doubts(found.found) == [], "told once"
    assert reasons_of(found, "unnamed") == {
        "left": True, "foo:full": True, "foo:bar": False, "not-today": False, "bar:foo": False,
    }  # fmt: skip


@case
def named(log: Log, directory: Path) -> None:
    end(log, "left", "reason-70", "closed", "foo:full").write(directory, (), [["closed", "foo:full"]])


def test_what_a_neighbour_gave_by_its_number_and_what_is_named_is_told_of_nobody(found: Judged) -> None:
    assert found.rows("claims", "named") == [] and doubts(found.found) == []
    assert reasons_of(found, "named") == dict.fromkeys(("left", "reason-70", "closed", "foo:full"), True)


SEGMENTS: dict[str, list[Sequence[str] | None]] = {
    "honest": [OWN, None, OWN, None],
    "older": [None, None, None, None],
    "liar": [OWN, OTHERS, None, []],
}
"""What the headers of a log's four segments name."""


def of_segments(headers: list[Sequence[str] | None]) -> Write:
    def write(log: Log, directory: Path) -> None:
        end(log, *["foo:full"] * 4).write(directory, [2, 4, 6], headers)

    return write


CASES |= {name: of_segments(headers) for name, headers in SEGMENTS.items()}


def test_each_segment_is_judged_by_what_its_own_header_names(found: Judged) -> None:
    """Services change between runs, and a run seals what the one before has left."""
    told = {name: claims(found.found, found.logs[name]) for name in SEGMENTS}
    assert told == {"honest": [], "older": [], "liar": [("unknown-reason", APP, 2, 4)]}


@case
def without_first(log: Log, directory: Path) -> None:
    end(log, "foo:full", "foo:bar", "foo:full")
    first, *_ = sorted(log.write(directory, [2, 4], [OWN] * 3).glob("events-*"))
    first.unlink()


def test_pruned_and_missing_segments_take_nothing_from_the_others(found: Judged) -> None:
    assert claims(found.found, found.logs["without_first"]) == [("unknown-reason", APP, 1, 4)]


@case
def turned_away(log: Log, directory: Path) -> None:
    end(log, "left")
    log.turned("refused", 3, "foo:bar")
    log.noted("router_refused", 2, "foo:bar")
    log.outward("deferred", [(1, 1)], reason="foo:bar")
    log.write(directory, (), [OWN])


def test_what_is_turned_away_and_what_a_service_notes_are_not_judged(found: Judged) -> None:
    assert found.rows("claims", "turned_away") == []


def test_a_reason_without_a_colon_is_doubted_where_no_header_names_any(tmp_path: Path) -> None:
    doubted = audited(end(Log(), "not-today", "foo:bar", "reason-300").write(tmp_path))
    [text] = doubts(doubted)
    assert text.endswith("for a reason that this audit does not know: not-today 1.") and doubted["claims"] == []


def test_an_export_is_judged_as_the_log_is(tmp_path: Path) -> None:
    log = end(Log(), "foo:full", "foo:bar")
    listing = list_logs([log.write(tmp_path / "log", reasons=[OWN])])
    names = Pseudonyms(bytes(32))
    export(*evidence_of(listing), tmp_path / "out", lambda: names)
    [claim] = audited(tmp_path / "out")["claims"]
    assert (claim["claim"], claim["router"], claim["seq"]) == ("unknown-reason", names.key(name(log.key)), 4)
