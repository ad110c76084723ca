"""A message's fate as JSON: complete for the node's owner, and for a neighbour only what it may know.

The keys of the owner's form are the contract of `router why --json`. A neighbour that was granted `why` learns, about
messages accepted from it, the number of our recipients in each state, and when; never their keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from router.core.log.events import EACH, ID_BYTES
from router.core.log.line import Line
from router.core.wire.text import clean

from .fate import HOPS_MAX, SECOND_NS, Fate, Hop, Recipient, Trace, short_key, time_text

OUTCOMES_MAX = 100
REPORT_BYTES_MAX = 64 * 1024
RECIPIENTS_MAX = 1_000
BYTES_MAX = 700_000
_DIGITS = 2 * ID_BYTES


def fate_json(found: Fate, recipients: Sequence[Recipient]) -> dict[str, Any]:
    """Return the owner's JSON; `recipients` are those of the fate, extended by what other routers reported.

    Times are UTC text and, for programs, nanoseconds. At most `RECIPIENTS_MAX` recipients or about `BYTES_MAX` bytes of
    them are listed, from the first on; `states` counts all of them by state, except the copies that were sent on, which
    `copies` counts; `carried` of those in `states` are delivered to the service that carries groups, and read
    nothing."""
    named = {"group": found.signer} if found.kind == "multicast" else {"destination": found.destination}
    states: dict[str, int] = {}
    copies: dict[str, int] = {}
    for one in found.recipients:
        counts = copies if one.is_copy else states
        counts[one.state] = counts.get(one.state, 0) + 1
    told, size = [], 0
    for one in recipients[:RECIPIENTS_MAX]:
        row = recipient_json(one)
        size += len(json.dumps(row))
        if size > BYTES_MAX:
            break
        told.append(row)
    return {
        "message": found.message,
        "kind": found.kind,
        **named,
        "source": found.signer,
        "accepted_at": time_text(found.accepted_ns),
        "accepted_ns": found.accepted_ns,
        "router": found.router,
        "brought_by": found.brought_by,
        "accepted_times": found.times,
        "expires_at": time_text(found.until_s * SECOND_NS),
        "states": states,
        "copies": copies,
        "carried": found.carried,
        "recipients": told,
        "recipients_omitted": len(found.recipients) - len(told),
    }


def recipient_json(one: Recipient) -> dict[str, Any]:
    copy = {"copy": True} if one.is_copy else {}
    until = {} if one.until_s is None else {"until": time_text(one.until_s * SECOND_NS)}
    return {
        "recipient": one.recipient,
        "state": one.state,
        "reason": one.reason,
        "attempts": one.attempts,
        "attempts_complete": not one.is_partial,
        **copy,
        **until,
        "next": one.next,
        "hops": [hop_json(hop) for hop in one.hops],
        "hops_omitted": one.hops_omitted,
    }


def hop_json(hop: Hop) -> dict[str, Any]:
    more: dict[str, Any] = {"reason": hop.reason} if hop.reason else {}
    if hop.count != 1:
        more["count"] = hop.count
    time = {"time": time_text(hop.at_ns), "t": hop.at_ns} if hop.at_ns else {"time": None}
    return {"router": hop.router or None, "event": hop.event, **time, **more}


def turned_json(trace: Trace) -> list[dict[str, Any]]:
    """Return when, and by which neighbour, copies of the message were turned away; the newest `HOPS_MAX`."""
    return [
        {"event": line.event, "reason": line.reason, "from": line.peer, "time": time_text(line.t), "t": line.t}
        for line in trace.turned[-HOPS_MAX:]
    ]


def noted_json(trace: Trace) -> list[dict[str, Any]]:
    """Return the events that services of this node noted about the message; the newest `HOPS_MAX`."""
    return [
        {
            "event": line.event,
            "reason": line.reason,
            "by": line.signer,
            "time": time_text(line.t),
            "t": line.t,
            "fields": fields,
        }
        for line in trace.noted
        for fields in _fields_of(line, trace.identity.hex())
    ][-HOPS_MAX:]


def _fields_of(line: Line, identity: str) -> Iterator[dict[str, Any]]:
    """Yield the fields of an event as they stand for this message, once for each time that it names it: of fields that
    hold a value for each message, the message's own."""
    fields, ids = line.fields or {}, line.ids or ""
    named = [at // _DIGITS for at in range(0, len(ids), _DIGITS) if ids[at : at + _DIGITS] == identity]
    for at in named or [0]:
        yield dict(_field_of(name, value, at) for name, value in fields.items())


def _field_of(name: str, value: Any, at: int) -> tuple[str, Any]:
    values = str(value).split(",")
    if not name.startswith(EACH) or at >= len(values):
        return name, value
    own = values[at]
    return name.removeprefix(EACH), int(own) if own.isdecimal() and len(own) < 16 else own


# -- between routers ---------------------------------------------------------------------------------------------


class RecipientCount(Struct, frozen=True):
    """The number of recipients in one state, and when the last one entered it (0: the state is not final).

    `beyond`: how many routers behind the answering one they are.
    """

    state: str
    reason: str | None
    count: int
    at_ns: int
    beyond: int = 0


class NeighbourReport(Struct, frozen=True):
    """A neighbour's answer. `problem`: why there is none, as a clause; "" if there is one."""

    message: str
    accepted_ns: int = 0
    outcomes: tuple[RecipientCount, ...] = ()
    problem: str = ""


def may_hear(trace: Trace, asker: str, formers: Collection[str] = ()) -> Trace | None:
    """Return the part of the trace that a neighbour, `asker`, may know; None if there is none. `formers`: the keys that
    its own one has followed.

    These are the acceptances of the message from it, with their outcomes, and its copies that were turned away here,
    including duplicates of messages from another neighbour."""
    keys = {asker, *formers}
    accepted = tuple(line for line in trace.accepted if line.peer in keys)
    turned = tuple(line for line in trace.turned if line.peer in keys)
    if accepted:
        return replace(trace, accepted=accepted, turned=turned, noted=())
    return Trace(trace.identity, turned=turned, holes=trace.holes, spoilt=trace.spoilt) if turned else None


def report(
    found: Fate | None,
    trace: Trace,
    asker: str,
    beyond: Mapping[str, NeighbourReport],
    formers: Collection[str] = (),
) -> NeighbourReport:
    """Return the report to the neighbour that asks. `formers`: the keys that its own one has followed.

    The outcomes that a router behind us reported replace the `acked` of the recipient; if it did not answer, the reason
    is added to ours."""
    if found is None:
        mine = [line for line in trace.turned if line.peer in {asker, *formers}]
        return NeighbourReport(
            trace.identity.hex(), 0, tuple(RecipientCount(row.event, row.reason, 1, row.t) for row in mine[-3:])
        )
    outcomes: list[RecipientCount] = []
    for one in found.recipients:
        told = beyond.get(one.recipient)
        if told is not None and told.outcomes:
            outcomes += [replace(outcome, beyond=outcome.beyond + 1) for outcome in told.outcomes]
        else:
            at_ns = 0 if one.until_s is not None or not one.hops else one.hops[-1].at_ns
            outcomes.append(RecipientCount(one.state, one.reason, 1, at_ns))
            if told is not None and told.problem:
                outcomes.append(RecipientCount("unknown", told.problem, 1, 0, 1))
    return NeighbourReport(found.message, found.accepted_ns, tuple(_summed(outcomes)))


def _summed(outcomes: Iterable[RecipientCount]) -> list[RecipientCount]:
    sums: dict[tuple[int, str, str | None], RecipientCount] = {}
    for one in outcomes:
        key = one.beyond, one.state, one.reason
        seen = sums.get(key)
        if seen is not None:
            one = replace(one, count=seen.count + one.count, at_ns=max(seen.at_ns, one.at_ns))
        sums[key] = one
    return list(sums.values())[:OUTCOMES_MAX]


def encode_report(told: NeighbourReport) -> bytes:
    rows = [[one.state, one.reason, one.count, one.at_ns, one.beyond] for one in told.outcomes]
    said = {"message": told.message, "accepted_ns": told.accepted_ns, "outcomes": rows, "problem": told.problem}
    return json.dumps({"why": said}).encode()


def decode_report(text: bytes) -> NeighbourReport | None:
    """Return a neighbour's report with its texts cleaned and its sizes bounded, or None if `text` is none."""
    if len(text) > REPORT_BYTES_MAX:
        return None
    try:
        said = json.loads(text)["why"]
        rows = [_outcome(*row) for row in said["outcomes"][:OUTCOMES_MAX]]
        told = NeighbourReport(
            str(said["message"])[:64], _natural(said["accepted_ns"]), tuple(rows), clean(said["problem"])
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return told


def _outcome(state: str, reason: str | None, count: int, at_ns: int, beyond: int) -> RecipientCount:
    word = None if reason is None else clean(reason, 40)
    return RecipientCount(clean(state, 40), word, _natural(count), _natural(at_ns), _natural(beyond))


def _natural(number: int) -> int:
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise ValueError(f"{number!r} is no number of this protocol")
    return number


def followed(one: Recipient, told: NeighbourReport) -> Recipient:
    """Return a recipient that took custody with its report appended as hops: first those there, then those behind it.

    Each router has its own clock, so the hops are in order only within each of these parts."""
    if told.problem:
        said = f"nothing here; what happened there is not known: {told.problem}"
        return replace(one, hops=(*one.hops, Hop(one.recipient, "unknown", 0, told.problem)), next=said)
    hops = [Hop(one.recipient, "accepted", told.accepted_ns)] if told.accepted_ns else []
    for outcome in sorted(told.outcomes, key=lambda one: (one.beyond > 0, not one.at_ns, one.at_ns)):
        router = "" if outcome.beyond else one.recipient
        hops.append(Hop(router, outcome.state, outcome.at_ns, outcome.reason, outcome.count))
    return replace(one, hops=(*one.hops, *hops), next=f"nothing here: {summary(short_key(one.recipient), told)}")


def summary(router: str, told: NeighbourReport) -> str:
    """Return a report as text:
    `core has taken custody; of its recipients: 2 delivered, 1 queued; of those at routers behind it: 3 expired`."""
    if not told.outcomes:
        return f"{router} owes it to nobody"
    if not told.accepted_ns:
        return f"{router} tells only of copies that it turned away: {_counted(told.outcomes)}"
    mine, behind = ([one for one in told.outcomes if (one.beyond > 0) is further] for further in (False, True))
    said = [f"{router} has taken custody"]
    said += [f"of its recipients: {_counted(mine)}"] if mine else []
    said += [f"of those at routers behind it: {_counted(behind)}"] if behind else []
    return "; ".join(said)


def _counted(outcomes: Iterable[RecipientCount]) -> str:
    """Return the counts by state and reason as text, added up over routers."""
    sums: dict[tuple[str, str | None], int] = {}
    for one in outcomes:
        sums[one.state, one.reason] = sums.get((one.state, one.reason), 0) + one.count
    return ", ".join(f"{count} {state}{f' ({reason})' if reason else ''}" for (state, reason), count in sums.items())
