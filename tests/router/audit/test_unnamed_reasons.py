"""A reason for which a message ended is one that the segment's header names, or that all routers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samples.audit_logs import APP, OTHER_APP, Log, audited, message_id, name

from router.audit.engine import evidence_of
from router.audit.export.logs import export
from router.audit.export.pseudonyms import Pseudonyms
from router.audit.listing import list_logs
from router.core.wire.crypto import SigningKey

OWN, OTHERS = ["invite:ended", "foo:full"], ["invite:ended"]


def ended(*reasons: str, event: str = "refused") -> Log:
    """Return a log in which one message ended for each of the reasons, each in a parcel of its own."""
    log = Log(SigningKey(" ".join(reasons).encode().ljust(32)[:32]))
    for number, reason in enumerate(reasons, 1):
        log.accepted(number, [f"{name(log.key)} {number}"])
        log.outward(event, [(number, 1)], parcel=number, reason=reason)
    return log


def claims(found: Mapping[str, Any], log: Log) -> list[tuple[str, str, int, int]]:
    """Return the claims about a log: claim, peer, count, and the event of the first."""
    names = ("claim", "peer", "count", "seq")
    return [tuple(row[name] for name in names) for row in found["claims"] if row["router"] == name(log.key)]


def judged(log: Log, directory: Path, *named: Sequence[str] | None, cuts: Sequence[int] = ()) -> Mapping[str, Any]:
    return audited(log.write(directory, cuts, named))


def texts(found: Mapping[str, Any], level: str) -> list[str]:
    return [one["text"] for one in found["findings"] if one["level"] == level]


def test_a_reason_that_the_header_does_not_name_is_told_with_its_message(tmp_path: Path) -> None:
    log = ended("left", "foo:full", "foo:bar", "foo:bar", "not-today")
    log.accepted(6, ["two"], [APP, OTHER_APP])
    log.outward("expired", [(6, 1)], recipient=OTHER_APP, parcel=6, reason="bar:foo")
    found = judged(log, tmp_path, OWN)
    assert claims(found, log) == [("unknown-reason", APP, 3, 6), ("unknown-reason", OTHER_APP, 1, 12)]
    assert found["claims"][0]["id"] == message_id(f"{name(log.key)} 3") and found["claims"][0]["accepted_seq"] == 5
    [first, _] = texts(found, "bad")
    assert "3 messages ended for " in first and "for a reason that neither the router nor its services have" in first
    assert not [text for text in texts(found, "warning") if "does not know" in text], "told once"
    assert {row["reason"]: row["known"] for row in found["reasons"]} == {
        "left": True, "foo:full": True, "foo:bar": False, "not-today": False, "bar:foo": False,
    }  # fmt: skip


def test_what_a_neighbour_gave_by_its_number_and_what_is_named_is_told_of_nobody(tmp_path: Path) -> None:
    log = ended("left", "reason-70", "closed", "foo:full")
    found = judged(log, tmp_path, ["closed", "foo:full"])
    assert found["claims"] == [] and all(row["known"] for row in found["reasons"])
    assert not [text for text in texts(found, "warning") if "does not know" in text]
    assert len(log.lines) == 8, "each has ended"


def test_each_segment_is_judged_by_what_its_own_header_names(tmp_path: Path) -> None:
    """Services change between runs, and a run seals what the one before has left."""
    log = ended("foo:full", "foo:full", "foo:full", "foo:full")
    cuts = [2, 4, 6]
    assert claims(judged(log, tmp_path / "honest", OWN, None, OWN, None, cuts=cuts), log) == []
    assert claims(judged(log, tmp_path / "older", None, None, None, None, cuts=cuts), log) == []
    found = judged(log, tmp_path / "liar", OWN, OTHERS, None, [], cuts=cuts)
    assert claims(found, log) == [("unknown-reason", APP, 2, 4)]


def test_pruned_and_missing_segments_take_nothing_from_the_others(tmp_path: Path) -> None:
    log = ended("foo:full", "foo:bar", "foo:full")
    first, *_ = sorted(log.write(tmp_path / "log", [2, 4], [OWN] * 3).glob("events-*"))
    first.unlink()
    assert claims(audited(tmp_path / "log"), log) == [("unknown-reason", APP, 1, 4)]


def test_a_reason_without_a_colon_is_doubted_where_no_header_names_any(tmp_path: Path) -> None:
    found = judged(ended("not-today", "foo:bar", "reason-300"), tmp_path, None)
    [text] = [text for text in texts(found, "warning") if "does not know" in text]
    assert text.endswith("for a reason that this audit does not know: not-today 1.") and found["claims"] == []


def test_what_is_turned_away_and_what_a_service_notes_are_not_judged(tmp_path: Path) -> None:
    log = ended("left")
    log.turned("refused", 3, "foo:bar")
    log.noted("router_refused", 2, "foo:bar")
    log.outward("deferred", [(1, 1)], reason="foo:bar")
    assert judged(log, tmp_path, OWN)["claims"] == []


def test_an_export_is_judged_as_the_log_is(tmp_path: Path) -> None:
    log = ended("foo:full", "foo:bar")
    listing = list_logs([log.write(tmp_path / "log", reasons=[OWN])])
    names = Pseudonyms(bytes(32))
    export(*evidence_of(listing), tmp_path / "out", lambda: names)
    [claim] = audited(tmp_path / "out")["claims"]
    assert (claim["claim"], claim["router"], claim["seq"]) == ("unknown-reason", names.key(name(log.key)), 4)
