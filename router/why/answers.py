"""The answers of `router why` as JSON: one message's fate, several that it may be, or how far back the log reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from router.core.why.fate import SPOILT_TOLD, Fate, Hole, Recipient, Spoilt, Trace, later, time_text
from router.core.why.id_prefix import TEXT, spelling
from router.core.why.report import NeighbourReport, fate_json, followed, noted_json, turned_json
from router.core.wire.text import counted, key_text
from router.disk.log.search import CANDIDATES_MAX, FoundEvents

WHERE_ELSE = "if the id is right, ask the router that took it from its sender, by `router why` there"
SPANS_MAX = 5
BY_STORE = "this is what the store holds of it, and what is left in the log; what else became of it cannot be known"
CUT = "the log has more lines about it than are read: only the oldest are shown"


def one(found: FoundEvents, trace: Trace, whole: Fate | None, reports: Mapping[str, NeighbourReport]) -> dict[str, Any]:
    """Return the answer about one message; `reports`: those of the routers that took custody, by key in hex."""
    if whole is None:
        answer: dict[str, Any] = {
            "message": trace.identity.hex(),
            "kind": None,
            "accepted_at": None,
            "states": {},
            "copies": {},
            "carried": 0,
            "recipients": [],
            "recipients_omitted": 0,
        }
    else:
        answer = fate_json(whole, tuple(_with(row, reports) for row in whole.recipients))
    left_out = [CUT] if trace.is_cut else []
    if trace.is_by_store:
        left_out.insert(
            0, "; ".join(["the log does not record that it was accepted", *_lacks(found, trace.holes), BY_STORE])
        )
    since = trace.own[-1].seq if trace.accepted else 0
    left_out += [*_not_searched(found), *not_believed(later(found.spoilt, since))]
    by = ("store" if trace.is_by_store else "log") if trace.accepted else None
    return {
        **answer,
        "acceptance": by,
        "text": key_text("msg", trace.identity),
        "turned_away": turned_json(trace),
        "turned_away_times": len(trace.turned),
        "noted": noted_json(trace),
        "missing_events": [list(hole) for hole in trace.holes[:100]],
        "complete": not left_out,
        "incomplete": "; ".join(left_out) or None,
    }


def _with(row: Recipient, reports: Mapping[str, NeighbourReport]) -> Recipient:
    told = reports.get(row.recipient)
    return row if told is None else followed(row, told)


def not_one(typed: str, found: FoundEvents) -> dict[str, Any]:
    """Return the error answer for an id that fits no message, or more than one. `typed`: the beginning of an id as the
    user typed it."""
    typed = spelling(typed)
    if found.candidates:
        rows = found.candidates[:CANDIDATES_MAX]
        more = " and more" if len(found.candidates) > CANDIDATES_MAX else ""
        is_text = typed.startswith(TEXT)
        ids = [key_text("msg", row.identity) if is_text else row.identity.hex() for row in rows]
        said = ", ".join(one[: max(20 if is_text else 16, len(typed) + 2)] for one in ids)
        error = f"several message ids begin with {typed}: {said}{more}; give more digits"
        return {"error": error}
    error = f"no message whose id begins with {typed} is in the log of this router"
    return {"error": f"{error}{_reach(found)}; {WHERE_ELSE}"}


def _reach(found: FoundEvents) -> str:
    """Describe how far back the log reaches, and what is missing from it."""
    said = f", which reaches back to {time_text(found.since_ns)}" if found.since_seq else ", which is empty"
    lacks = _lacks(found, found.missing)
    if found.missing:
        lacks[-1] += ", and whether they told of it cannot be known"
    return "; ".join([said, *lacks, *_counted(found), *_not_searched(found), *not_believed(found.spoilt)])


def _counted(found: FoundEvents) -> list[str]:
    """State that the message may be among those turned away and counted without an id; empty if there are none."""
    count, first_ns, last_ns = found.unnamed
    if not count:
        return []
    if count == 1:
        return [f"one message was turned away at {time_text(last_ns)} and counted without its id: it may be this one"]
    said = f"{count} messages were turned away from {time_text(first_ns)} to {time_text(last_ns)} and counted without"
    return [f"{said} their ids (log.refused_percent, log.refused_ids_per_s): it may be one of these"]


def _lacks(found: FoundEvents, missing: Sequence[Hole]) -> list[str]:
    """Describe which events are not in the log; missing ones come last."""
    said = []
    if found.pruned_seq:
        said.append(f"older events, up to number {found.pruned_seq}, are no longer kept (log.keep_s, log.keep_bytes)")
    if missing:
        rows = missing[:SPANS_MAX]
        spans = ", ".join(f"{first} to {last}" if last else f"from {first} on" for first, last in rows)
        more = f" and {counted(rest, 'more span')}" if (rest := len(missing) - SPANS_MAX) > 0 else ""
        said.append(f"the events {spans}{more} are missing in it")
    return said


def not_believed(spoilt: Sequence[Spoilt]) -> list[str]:
    """Describe which files' events do not count, and why."""
    if not spoilt:
        return []
    is_are, whose = ("is", "its") if len(spoilt) == 1 else ("are", "their")
    cause = f"{is_are} not believed, for {whose} bytes cannot be read or are not those that were signed"
    said = _listed([path for _, path in spoilt])
    return [f"{said} {cause}: events of {'it' if len(spoilt) == 1 else 'them'} are not counted"]


def _listed(paths: Sequence[str]) -> str:
    more = f" and {counted(rest, 'more file')}" if (rest := len(paths) - SPOILT_TOLD) > 0 else ""
    return f"{', '.join(paths[:SPOILT_TOLD])}{more}"


def _not_searched(found: FoundEvents) -> list[str]:
    """Describe which parts of the log were not searched, and why."""
    said = []
    if found.unsearched:
        has, was = ("has", "was") if found.unsearched == 1 else ("have", "were")
        count = counted(found.unsearched, "segment")
        said.append(f"{count} {has} no index yet and {was} not searched: ask again")
    if found.unread:
        are, they = ("is", "it") if len(found.unread) == 1 else ("are", "they")
        said.append(f"{_listed(found.unread)} {are} gone or damaged, and what {they} held is not known")
    if found.is_behind:
        said.append("the newest events wait in the store because the log cannot be written now, and were not searched")
    return said
