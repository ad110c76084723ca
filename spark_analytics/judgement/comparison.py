"""Compare the logs of an audit with those that other audits judged, by the heads that their summaries name: a router
that shows each auditor another log is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from .chain import Seal
from .footer import NATURAL_MAX
from .heads import Heads

SUMMARY_BYTES_MAX = 256 << 20
SAME, OTHER, BEYOND, UNKNOWN, ABSENT = "same", "other", "beyond", "unknown", "absent"


class Head(NamedTuple):
    """The last sealed event of a router's log that another audit judged. `audit`: where its summary is."""

    audit: str
    router: str
    event: int
    digest: str


class Compared(NamedTuple):
    """A head beside the log that is given here. `result`: the same history up to there; another one, as `path` shows;
    this log ends before, at `last`; it cannot be told, as only folded footers are left; or no log is given."""

    audit: str
    router: str
    event: int
    digest: str
    result: str
    path: str
    last: int


class NotASummary(Exception):
    """A file is no summary of an audit; the text says why, and what to name."""


def heads_in(audit: str, data: bytes) -> tuple[Head, ...]:
    """Return the heads in a summary (JSON); raise `NotASummary`."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise NotASummary(f"{audit} is no JSON: {_WHICH}") from None
    if not isinstance(found, dict) or "verdict" not in found:
        raise NotASummary(f"{audit} is no summary of an audit: {_WHICH}")
    if "heads" not in found:
        raise NotASummary(f"{audit} names no heads of logs: make that audit again with this version")
    try:
        heads = {_head(audit, row) for row in found["heads"]}
    except (KeyError, TypeError, ValueError):
        raise NotASummary(f"{audit} names heads of logs in another form: {_WHICH}") from None
    if not heads:
        raise NotASummary(f"{audit} names no head of a log, so nothing can be compared: {_YOUNG}")
    return tuple(sorted(heads))


def _head(audit: str, row: Any) -> Head:
    """Return a head as summaries name it; raise `ValueError`, `KeyError` or `TypeError`. Whoever wrote the summary may
    have put anything in its place: what is no key, number or digest goes neither into tables nor onto a terminal."""
    router, event, digest = row["router"], row["event"], row["digest"]
    if not (type(event) is int and 0 <= event <= NATURAL_MAX and _HEX32.fullmatch(router) and _HEX32.fullmatch(digest)):
        raise ValueError("no head of a log")
    return Head(audit, router, event, digest)


_HEX32 = re.compile("[0-9a-f]{64}")
_YOUNG = "no log that was audited there had a sealed segment; audit them again once one is sealed (`log.segment_s`)"
_WHICH = "name the summary.json of an `--out`, or what `--json` printed"


def compared(heads: Iterable[Head], seals: Iterable[Seal]) -> list[Compared]:
    """Return what the seals of the logs that are given say of each head."""
    of: dict[str, list[Seal]] = {}
    for seal in seals:
        of.setdefault(seal.router, []).append(seal)
    return [_compared(head, of.get(head.router, [])) for head in heads]


def _compared(head: Head, seals: list[Seal]) -> Compared:
    last, ours = max((seal.last_seq for seal in seals), default=0), Heads(seals)
    if not seals:
        return Compared(*head, ABSENT, "", last)
    if ours.have(head.event, head.digest):
        return Compared(*head, SAME, "", last)
    if seal := ours.contradicting(head.event):
        return Compared(*head, OTHER, seal.path, last)
    return Compared(*head, BEYOND if head.event > last else UNKNOWN, "", last)
