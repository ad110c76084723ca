"""The fate of one message: from the log lines about it, a state for each recipient, and what happens next.

Only logged decisions count. The states are those of the audit, in its order of precedence, except that an open delivery
is `in-flight` or `queued`. If the store cannot be asked, the log alone is judged: an open delivery is `pending` if its
time is not over at the log's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from router.core.log.line import Line
from router.core.wire.lifetime import deadline_s, expiry_s
from router.core.wire.reasons import by_word

ENDS = ("delivered", "acked", "unconfirmed", "refused", "expired", "dropped", "evicted")
UNACCOUNTED = "unaccounted"
COPY = "copy"
"""The kind of an acceptance by which a service of this node sends a multicast on to one router."""
HOPS_MAX = 50
SECOND_NS = 1_000_000_000
SPOILT_TOLD = 5
"""Most untrusted files that a sentence names."""
OVER_S = 600
"""Seconds after its expiry during which a delivery without an end in the log is still `pending`, as in the audit."""

Hole = tuple[int, int]
"""The first and last number of a run of missing sequence numbers; `last` 0: all from the first on."""
Spoilt = tuple[int, str]
"""A file of the log that does not match its signature: the first sequence number by its name, and its path."""


class Trace(Struct, frozen=True):
    """The log lines about one id, in the log's order: acceptances, copies turned away, its parcels' outward events, and
    events noted by services; or all about an invitation.


    `holes`: missing sequence numbers. `is_cut`: there were more lines than were read. `spoilt`: files that are not
    trusted, of which no line counts. `is_by_store`: the log has no acceptance; the one here, with the sequence number
    0, was made from the store.
    """

    identity: bytes
    accepted: tuple[Line, ...] = ()
    turned: tuple[Line, ...] = ()
    outward: tuple[Line, ...] = ()
    holes: tuple[Hole, ...] = ()
    is_cut: bool = False
    spoilt: tuple[Spoilt, ...] = ()
    is_by_store: bool = False
    noted: tuple[Line, ...] = ()

    @property
    def own(self) -> tuple[Line, ...]:
        """Return the acceptances of the message itself, without copies that a service sent on; if there is none, the
        first copy."""
        return tuple(line for line in self.accepted if line.kind != COPY) or self.accepted[:1]

    @property
    def stream(self) -> tuple[bytes, bytes | None]:
        """Return the stream of the last acceptance, within which order matters: see `parcel.Parcel`."""
        row = self.accepted[-1]
        signer, destination = row.source or row.group or "", row.destination
        return bytes.fromhex(signer), None if destination is None else bytes.fromhex(destination)


class Hop(Struct, frozen=True):
    """The actions of one router on the message, and their times. `router`: its key as hex, "" if it is not
    disclosed."""

    router: str
    event: str
    at_ns: int
    reason: str | None = None
    count: int = 1


class Prospect(Struct, frozen=True):
    """The present state of the delivery to one recipient.

    `is_owed`: the message is in the store's queue; None if the store cannot be asked, then `log_end_ns` is the time of
    the newest event. `is_running`: this router runs; `retry_s`: seconds until a message that was refused for now is
    sent again; `ahead`: messages in the queue; `is_dialled`: this router dials the recipient instead of waiting for it;
    `is_blocked`: the operator has blocked it; `problem`: why the last attempt failed.
    """

    name: str = ""
    is_owed: bool | None = True
    log_end_ns: int = 0
    is_running: bool = True
    is_connected: bool = False
    in_flight: bool = False
    retry_s: float | None = None
    ahead: int = 0
    is_dialled: bool = False
    is_blocked: bool = False
    problem: str = ""


class Carrier(Struct, frozen=True):
    """The service of this node that carries groups to other nodes, and reads none of their messages.

    `key`: as hex, "" if there is no such service; `is_seeking`: it looks now for nodes that want a group in which
    something is published here; `is_router(key)`: whether this is the key of another node, which may have brought a
    message."""

    key: str = ""
    is_seeking: bool = False
    is_router: Callable[[str], bool] = lambda key: False


class Recipient(Struct, frozen=True):
    """The fate of a message for one recipient.

    `until_s`: the Unix second at which the router gives up, None if the delivery has ended. `hops_omitted`: number of
    hops left out in the middle of this router's, after the first `HOPS_MAX // 2`. `is_partial`: events are missing, so
    there may have been more attempts. `is_copy`: a router that a service of this node sent the message on to."""

    recipient: str
    state: str
    reason: str | None
    hops: tuple[Hop, ...]
    attempts: int
    until_s: int | None = None
    next: str = ""
    hops_omitted: int = 0
    is_partial: bool = False
    is_copy: bool = False


class Fate(Struct, frozen=True):
    """The fate of one message at one router, by its last acceptance. The last `recipients` are those of copies.

    `times`: the number of acceptances, since an id may be accepted again after its expiry; `carried`: how many of the
    recipients have taken it to carry it to other nodes, and read nothing (`Carrier`)."""

    message: str
    kind: str
    signer: str
    destination: str | None
    brought_by: str | None
    router: str
    accepted_ns: int
    times: int
    until_s: int
    recipients: tuple[Recipient, ...]
    carried: int = 0


def fate(
    trace: Trace,
    prospect_of: Callable[[str, int, int], Prospect],
    now_ns: int,
    ttl_s_max: int,
    carrier: Carrier | None = None,
) -> Fate | None:
    """Return the fate of the message, or None if it was never accepted.

    `prospect_of(recipient, first, index)` is called for each recipient without an outcome. `carrier`: what it does with
    a group's message that it has taken is told, as nobody has read the message by that."""
    if not trace.accepted:
        return None
    own = trace.own
    row = own[-1]
    recipients = _recipients(row, trace, prospect_of, now_ns, ttl_s_max)
    for line in trace.accepted:
        if line.kind == COPY and line.seq > row.seq:
            copies = _recipients(line, trace, prospect_of, now_ns, ttl_s_max)
            recipients += [replace(one, is_copy=True) for one in copies]
    carried = 0
    if carrier is not None and row.kind == "multicast" and row.peer != row.group:  # a service's own group stays here
        carried = sum(_is_taken_by(carrier, one) for one in recipients)
        said = _carried(carrier, trace, recipients, now_ns)
        recipients = [replace(one, next=said) if _is_taken_by(carrier, one) else one for one in recipients]
    return Fate(
        trace.identity.hex(),
        row.kind or "",
        row.source or row.group or "",
        row.destination,
        row.peer,
        row.router or "",
        row.t,
        len(own),
        _until_s(row, _index_in(row, trace), ttl_s_max),
        tuple(recipients),
        carried,
    )


def _index_in(row: Line, trace: Trace) -> int:
    """Return the place of the traced message among those of an acceptance."""
    return (row.ids or "").index(trace.identity.hex()) // 64


def _until_s(row: Line, at: int, ttl_s_max: int) -> int:
    return deadline_s(row.t // SECOND_NS, (row.ttls or ())[at], (row.expiries or ())[at], ttl_s_max)


def _recipients(
    row: Line, trace: Trace, prospect_of: Callable[[str, int, int], Prospect], now_ns: int, ttl_s_max: int
) -> list[Recipient]:
    """Return the fate for each recipient that an acceptance names."""
    at = _index_in(row, trace)
    arrival, until_s = (row.first or 0) + at, _until_s(row, at, ttl_s_max)
    by_recipient: dict[str, list[Line]] = {one: [] for one in row.recipients or ()}
    for line in trace.outward:
        if line.recipient in by_recipient and line.seq > row.seq and covers(line, arrival):
            by_recipient[line.recipient].append(line)
    doubt = _doubt(trace, row.seq)
    return [
        _marked(
            _ended(one, lines) or _open(one, lines, prospect_of(one, row.first or 0, at), until_s, doubt, now_ns),
            trace,
            row.seq,
            lines,
        )
        for one, lines in by_recipient.items()
    ]


def covers(line: Line, arrival: int) -> bool:
    """Whether an outward line covers the message with this arrival number."""
    return any(first <= arrival < first + count for first, count in line.ranges or ())


def _recipient(
    key: str, state: str, reason: str | None, lines: Sequence[Line], until_s: int | None, said: str
) -> Recipient:
    """Return one recipient's fate; of more than `HOPS_MAX` hops, keep the first and the last."""
    attempts, omitted = sum(line.event == "forwarded" for line in lines), max(0, len(lines) - HOPS_MAX)
    told = (*lines[: HOPS_MAX // 2], *lines[-HOPS_MAX // 2 :]) if omitted else lines
    hops = tuple(Hop(line.router or "", line.event, line.t, line.reason) for line in told)
    return Recipient(key, state, reason, hops, attempts, until_s, said, omitted)


def _ended(recipient: str, lines: Sequence[Line]) -> Recipient | None:
    ends = {line.event: line for line in reversed(lines) if line.event in ENDS}  # the first line of each event
    state = next((one for one in ENDS if one in ends), None)
    if state is None:
        return None
    reason = ends[state].reason
    said = _after(state, reason, short_key(recipient))
    return _recipient(recipient, state, reason, lines, None, said)


def _open(
    recipient: str, lines: Sequence[Line], prospect: Prospect, until_s: int, doubt: str, now_ns: int
) -> Recipient:
    """Return the fate of a delivery without an end in the log.

    If the store still owes it, holes in the log do not matter. `doubt`: why an end may be missing from the lines, ""
    if none can be."""
    reason = next((line.reason for line in reversed(lines) if line.reason), None)
    if prospect.is_owed:
        state = "in-flight" if prospect.in_flight else "queued"
        said = _before(prospect.name or short_key(recipient), prospect, reason, until_s, now_ns)
    elif doubt:
        state, said = "unknown", f"cannot be known: {doubt}"
    elif prospect.is_owed is None:
        is_over = prospect.log_end_ns >= (until_s + OVER_S) * SECOND_NS
        is_in_flight = bool(lines) and lines[-1].event == "forwarded"
        state = "unknown" if is_over and not is_in_flight else "pending"
        said = _unasked(state == "unknown", until_s, now_ns)
    else:
        state, said = UNACCOUNTED, "nothing: it is not queued, and the log tells of no end; a fault, please report it"
    return _recipient(recipient, state, reason, lines, until_s, said)


def _marked(told: Recipient, trace: Trace, seq: int, lines: Sequence[Line]) -> Recipient:
    """Set `is_partial` if events may be missing between the acceptance `seq` and the end of the delivery."""
    is_open, is_partial = told.until_s is not None, trace.is_by_store or trace.is_cut
    for first, last in trace.holes:
        is_partial |= (not last or last > seq) and (is_open or first < lines[-1].seq)
    return replace(told, is_partial=True) if is_partial else told


def _doubt(trace: Trace, seq: int) -> str:
    """Return why an end of the message accepted at `seq` may be missing from the lines; "" if none can be."""
    if trace.is_cut:
        count = len(trace.accepted) + len(trace.turned) + len(trace.outward)
        return f"the log tells more of it than the {count} lines that are read"
    first, last = next((one for one in trace.holes if not one[1] or one[1] > seq), (0, 0))
    if not first:
        return "its acceptance, and what was written beside it, is no longer in the log" if trace.is_by_store else ""
    files = [path for _, path in later(trace.spoilt, seq)[:SPOILT_TOLD]]
    said = f"the events {first} {f'to {last}' if last else 'and all later ones'} are missing or cannot be read"
    if first == last:
        said = f"the event {first} is missing or cannot be read"
    return f"{said} ({', '.join(files)} {'is' if len(files) == 1 else 'are'} not believed)" if files else said


def later(spoilt: Sequence[Spoilt], seq: int) -> list[Spoilt]:
    """Return the files that may hold later events of a message accepted at `seq`."""
    return [one for one in spoilt if one[0] >= seq]


def _unasked(is_over: bool, until_s: int, now_ns: int) -> str:
    """Return the sentence for a delivery without an end in the log when the store cannot be asked.

    `is_over`: the message's time was over before the log ends."""
    said = "not known: the log tells of no end"
    if is_over:
        said += ", though it goes on after the message's time"
    expiry = "it expires" if until_s * SECOND_NS > now_ns else "it was to expire"
    return f"{said}; whether it is still queued only the store could tell; {expiry} {time_text(until_s * SECOND_NS)}"


def _is_taken_by(carrier: Carrier, one: Recipient) -> bool:
    return one.recipient == carrier.key and one.state == "delivered" and not one.is_copy


def _carried(carrier: Carrier, trace: Trace, recipients: Sequence[Recipient], now_ns: int) -> str:
    """Return the sentence that says what the service does that has taken a message to carry it to other nodes."""
    routers = sum(one.is_copy and one.state == "acked" for one in recipients)
    if routers:
        have = "another router has" if routers == 1 else f"{routers} other routers have"
        return f"nothing here: the service has sent it on, and {have} taken custody"
    is_read = any(one.recipient != carrier.key and one.state in ("delivered", "acked") for one in recipients)
    nobody = "no other node has taken it" if is_read else "nobody has read it"
    told, row = "as far as the log of this node tells", trace.own[-1]
    is_brought = row.peer is not None and carrier.is_router(row.peer)
    if is_brought and is_read:
        nobody = "it came from another node, and none has taken it from here"
    end_ns = expiry_s((row.expiries or ())[_index_in(row, trace)]) * SECOND_NS
    if end_ns <= now_ns:
        return f"nothing: its time is over, and {nobody}, {told}"
    if any(line.signer == carrier.key and line.reason for line in trace.noted):
        said = "the service does not send it on of itself any more, as noted, and keeps it for other nodes that ask"
    elif carrier.is_seeking and not is_brought:
        said = "the service keeps it until its end and looks for readers at other nodes"
    else:
        said = "the service keeps it until its end for readers at other nodes"
    return f"{said}; {nobody} yet, {told}; it expires {time_text(end_ns)}"


def _after(state: str, reason: str | None, name: str) -> str:
    match state:
        case "delivered":
            return "nothing: the app has settled it"
        case "acked":
            return f"nothing here: {name} has taken custody; `router why` there, or --follow, tells the rest"
        case "unconfirmed":
            return "nothing: it was written, and with ttl 0 nobody keeps or confirms it"
    return f"nothing: {sentence(reason)}"


def _before(name: str, prospect: Prospect, reason: str | None, until_s: int, now_ns: int) -> str:
    """Return the sentence that says what happens next to an open delivery, and until when."""
    end = f"; it expires {time_text(until_s * SECOND_NS)}"
    if until_s * SECOND_NS <= now_ns:
        end = "; its time is over, and it is about to end as expired"
    if not prospect.is_running:
        return f"waits for {name}, and for this router, which is stopped, to start again{end}"
    if prospect.is_blocked:
        said = f"{name} is blocked here (`router peer block`), and what waits for it is about to end as dropped"
        return f"{said}; `router peer unblock` lets it in again, for what comes later"
    if prospect.in_flight:
        return f"{name} has it and has not settled it; if the connection breaks before that, it is sent again{end}"
    if prospect.is_connected and prospect.retry_s is not None:
        said = f"{name} refused it for now ({sentence(reason)}); it is sent again in {prospect.retry_s:.0f} s"
        return said + end
    if prospect.is_connected:
        return f"waits its turn to {name}, which is connected; {prospect.ahead} messages are queued there{end}"
    if not prospect.is_dialled:
        return f"waits for {name}, who is away; it is handed over when {name} connects to this router{end}"
    tried = f" (the last attempt: {prospect.problem})" if prospect.problem else ""
    return f"waits for {name}, who is away; it is dialled again and again{tried}{end}"


def sentence(word: str | None) -> str:
    """Return the meaning of a reason's word, as a clause."""
    known = by_word(word or "")
    return (word or "no reason was given") if known is None else known.clause


def short_key(key: str) -> str:
    return f"{key[:8]}…"


def time_text(ns: int) -> str:
    """Return a time in Unix nanoseconds as UTC text, to the millisecond."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d} UTC"
