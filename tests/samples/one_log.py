"""Logs written by hand, each of a router of its own or two of them, that contradict themselves or each other, or only
seem to; all are audited at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from router.core.wire.crypto import SigningKey
from samples.audit_logs import APP, LATE, Log, audited, name
from samples.two_logs import Case, G, Pair
from spark_analytics.judgement.claim_sql import OF_MESSAGES


def claimed(cases: Mapping[str, Case], directory: Path) -> dict[str, list[tuple[str, int]]]:
    """Return the claims, with their counts, of each case's router."""
    logs = {case: Log(SigningKey(case.encode().ljust(32)[:32])) for case in cases}
    for case, write in cases.items():
        write(logs[case])
        logs[case].write(directory / case)
    rows = audited(*(directory / case for case in cases))["claims"]
    return {case: told_of(rows, log) for case, log in logs.items()}


def between(cases: Mapping[str, Pair], directory: Path) -> tuple[dict[str, list[tuple[str, int]]], dict[str, Any]]:
    """Return the claims of each case's first router, and the summary."""
    logs = {case: tuple(Log(SigningKey(f"{one}{case}".encode().ljust(32)[:32])) for one in "ab") for case in cases}
    for case, write in cases.items():
        write(*logs[case])
        for one in logs[case]:
            one.write(directory / case / name(one.key)[:8])
    found = audited(*(directory / case for case in cases), at=3 * LATE)
    return {case: told_of(found["claims"], here) for case, (here, _) in logs.items()}, found


def told_of(rows: Sequence[Mapping[str, Any]], log: Log) -> list[tuple[str, int]]:
    """Return the claims of a router, with their counts. Raise AssertionError if one about messages does not name the
    first one of its line."""
    own = [row for row in rows if row["router"] == name(log.key)]
    for row in own:
        assert row["claim"] not in OF_MESSAGES or row["id"] == first_message(log, row["seq"]), row
        assert row["claim"] != "no-history" or row["id"] is not None, row
    return [(row["claim"], row["count"]) for row in own]


def first_message(log: Log, seq: int) -> str:
    """Return the id of the first message that a line of a log is about."""
    [line] = (one for one in log.lines if one.seq == seq)
    if line.event == "accepted":
        return (line.ids or "")[:64]
    [accepted] = (one for one in log.lines if one.event == "accepted" and one.first == line.parcel)
    assert line.ranges is not None and accepted.first is not None
    at = line.ranges[0][0] - accepted.first
    return (accepted.ids or "")[64 * at : 64 * at + 64]


def then(*steps: Case) -> Case:
    def write(log: Log) -> None:
        for step in steps:
            step(log)

    return write


def joined(log: Log, at: float = 1, **fields: Any) -> None:
    log.state("join", at, subscriber=APP, group=G, **fields)


def linked(log: Log, at: float = 1, standing: str = "local") -> None:
    log.state("link_up", at, peer=APP, link=7, standing=standing)


def down(log: Log) -> None:
    log.state("link_down", 2, peer=APP, link=7, standing="local")
