"""The events of the log: decisions about messages, as values, and as bytes that are committed in the decisions'
transaction.

Events are columns. One `Accepted` represents n messages and takes n consecutive sequence numbers; every other event
takes one, however many messages it represents: an `Outward` names ranges of arrival numbers, a `Turned` may have only a
count. Sequence numbers begin at 1 and have no gaps. Ids are joined, 32 bytes each; a column of numbers is joined
little-endian 32-bit words. Fields are declared in the order of their encoding (`cddl/event.cddl`).

No event contains a message body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import cbor2
import msgspec
from msgspec import Meta, Struct

from router.core.wire.codec import Malformed
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

VERSION = 1
BOOT_BYTES = 16
ID_BYTES = 32
WORD_BYTES = 4
COPY = 2
"""The kind of an acceptance by which a local service sends a multicast on to one router (R-C29); it exists beside that
of the message itself."""
INT64_MAX = (1 << 63) - 1  # The greatest number in the analytics' types.
FIELD_MAX = 10**18 - 1  # The greatest number in a line (`cddl/segment.cddl`).
TIMES_MAX = 10**10 - 1  # The greatest count of a line.

Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
Boot = Annotated[bytes, Meta(min_length=BOOT_BYTES, max_length=BOOT_BYTES)]
Natural = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Positive = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Word = Annotated[str, Meta(min_length=1, max_length=64)]
if TYPE_CHECKING:
    Plain = str | int | bytes | bool
else:
    Plain = Any  # msgspec reads no union of text and bytes; `decode_events` checks the types itself.
Fields = tuple[tuple[str, Plain], ...]

OUTWARD_EVENTS = frozenset((
    "forwarded", "delivered", "acked", "deferred", "expired", "refused", "dropped", "evicted", "unconfirmed",
    "pulled", "recovered",
))  # fmt: skip
TURNED_EVENTS = frozenset(("refused", "duplicate"))
EVENT_FORM = "[a-z][a-z0-9_]{0,63}"
NOTED_IDS_MAX = 64
"""The most messages that one event of a service is about."""
EACH = "each_"
"""How the names of fields begin that hold a value for each message."""
STATE_EVENTS = frozenset((
    "start", "stop", "config", "link_up", "link_down", "link", "join", "leave", "advert", "invite", "met",
    "route_add",
    "route_del", "clock_step", "log_gap", "alarm",
))  # fmt: skip


KNOWN_EVENTS = frozenset(("accepted", "segment", "seal")) | OUTWARD_EVENTS | TURNED_EVENTS | STATE_EVENTS
"""Names that no service may give to its own events."""
DIAL_REFUSED = "dial_refused"
"""The event of addresses that are not dialled, which the router records in the form of a service's event, with its own
key."""
RENEWAL = "renewal"
"""The event of a key that another key has taken the place of; recorded in the same way."""
WHEREABOUTS = "whereabouts"
"""The event of the addresses at which a neighbour or this router says that it is reached; recorded in the same way."""
SUCCESSION_REFUSED = "succession_refused"
"""The event of a statement by which a key claimed another one's place and was refused; recorded in the same way."""
HISTORY_ASKED = "history_asked"
"""The event of messages that the pub/sub service asks another router for as history, which go to that service alone;
recorded in the same way."""
QUEUE_DROPPED = "queue_dropped"
"""The event of a queue that the operator orders to be dropped; recorded in the same way."""
IDLE = "idle"
"""The event that nothing was logged for a time, which shows that the node runs; recorded in the same way."""
REFUSAL = "refusal"
"""The event of what a service said when it refused a message; recorded in the same way, and no service's event can have
its name."""


# Structs, not dataclasses: one is made per recipient and batch, and a frozen dataclass costs ten times as
# much (1.9 µs against 0.16 µs). `at_ns` is wall time, `mono_ns` the monotonic clock of this boot.


class Accepted(Struct, frozen=True, gc=False, array_like=True, tag=0):
    """The acceptance of n messages of one signer from one neighbour, with arrival numbers from `first` on.

    `signer` is the source of a unicast (kind 0) or the group of a multicast (kind 1), or of a copy (kind 2): a
    multicast that a local service sends on to one router. `neighbour` is the key at the other end of the link.
    `recipients` are those at this moment: without them a later loss could not be detected. `ids` holds n ids; `sizes`
    in bytes as received, `ttls` in seconds and `expiries` in minutes since 2020 (R-A2) hold n words each.
    """

    at_ns: Natural
    mono_ns: Natural
    first: Natural
    kind: Annotated[int, Meta(ge=0, le=COPY)]
    signer: Key
    destination: Key | None
    neighbour: Key | None
    link: Natural
    recipients: tuple[Key, ...]
    ids: bytes
    sizes: bytes
    ttls: bytes
    expiries: bytes


class Outward(Struct, frozen=True, gc=False, array_like=True, tag=1):
    """An event on the way to one recipient, for the messages in these `(first arrival number, count)` ranges.

    `forwarded` is a write, an attempt; `delivered` a local recipient's settling, `acked` the next router's.
    `depth` is the length of the recipient's queue in messages; `duration_ns` the time from writing to settling.
    `parcel` is the first arrival number of the `Accepted` that contains all the ranges.
    """

    at_ns: Natural
    mono_ns: Natural
    event: Word
    recipient: Key
    link: Natural
    ranges: tuple[tuple[Natural, Natural], ...]
    reason: Natural | None
    attempt: Natural
    depth: Natural
    duration_ns: Natural
    parcel: Natural


class Turned(Struct, frozen=True, gc=False, array_like=True, tag=2):
    """A sum of `count` messages of one neighbour that were turned away on arrival; `ids` may name some of them.

    They have a total of `size` bytes and arrived within `duration_ns` before this event. `neighbour` is None for a sum
    over several neighbours, `link` 0 for several links.
    """

    at_ns: Natural
    mono_ns: Natural
    event: Word
    neighbour: Key | None
    link: Natural
    reason: Natural
    ids: bytes
    count: Natural
    signer: Key | None
    size: Natural = 0
    duration_ns: Natural = 0


class RouterChange(Struct, frozen=True, gc=False, array_like=True, tag=3):
    """A change of the router itself, as named plain values; bytes are keys and digests."""

    at_ns: Natural
    mono_ns: Natural
    event: Word
    fields: Fields


class Noted(Struct, frozen=True, gc=False, array_like=True, tag=4):
    """An event of a service of this node: a word that its `events.py` declares, its key, and its fields; or, with the
    router's key, `DIAL_REFUSED`, `HISTORY_ASKED`, `IDLE`, `QUEUE_DROPPED`, `REFUSAL`, `RENEWAL`,
    `SUCCESSION_REFUSED` or `WHEREABOUTS`.

    `ids` holds the ids of the messages that it is about, `NOTED_IDS_MAX` at most, or is empty. Of several, a field
    `each_…` has the value of each, in order, separated by commas. The audit counts as abuse what ends in `_refused`:
    its field `times` says how often something of the neighbour `router`, or of the network `prefix`, was not taken in.
    """

    at_ns: Natural
    mono_ns: Natural
    event: Word
    service: Key
    ids: bytes
    reason: Natural | None
    fields: Fields


def by_router(me: bytes, event: str, fields: Fields, now: Now) -> Noted:
    """Return an event of the router with the key `me`, in the form of a service's."""
    return Noted(now.wall_ns, now.mono_ns, event, me, b"", None, (("service", "router"), *fields))


Event = Accepted | Outward | Turned | RouterChange | Noted

_TAGS: dict[type[Event], int] = {Accepted: 0, Outward: 1, Turned: 2, RouterChange: 3, Noted: 4}


def span(event: Event) -> int:
    """Return how many sequence numbers the event takes."""
    return len(event.ids) // ID_BYTES if isinstance(event, Accepted) else 1


def stands_for(event: Event) -> int:
    """Return how many messages the event represents; for an `Outward`, how many deliveries.

    A `RouterChange` or `Noted` counts as 1, or as the value of its field `times`; a `Noted` of several messages as
    these."""
    match event:
        case Outward():
            return sum([count for _, count in event.ranges])
        case Turned():
            return event.count
        case RouterChange() | Noted():
            times = next((value for name, value in event.fields if name == "times" and type(value) is int), 1)
            if isinstance(event, RouterChange):
                return times
            return max(1, len(event.ids) // ID_BYTES, min(times, TIMES_MAX))
    return span(event)


def reason_word(number: int) -> str:
    """Return the word of a reason, or `reason-70` for one that neither this router nor its services know."""
    known = Reason._value2member_map_.get(number)
    return known.word if isinstance(known, Reason) else f"reason-{number}"


# -- one batch as one value of the store ----------------------------------------------------------------


class Logged(NamedTuple):
    """The events of one transaction: the first has the sequence number `first_seq`; `boot` names the router's run."""

    first_seq: int
    boot: bytes
    events: Sequence[Event]


def encode_events(events: Sequence[Event], first_seq: int, boot: bytes) -> bytes:
    """Return the store's value for these events, which commits in the transaction of the batch they are about.

    The first event takes the sequence number `first_seq`; `boot` names this run of the router. Events that could not
    be read back are our own bug: they fail an assertion here, not when the log is sealed.
    """
    assert first_seq >= 1 and len(boot) == BOOT_BYTES
    return cbor2.dumps((VERSION, first_seq, boot, [_row(event) for event in events]))


def _row(event: Event) -> tuple[Any, ...]:
    match event:
        case Accepted():
            assert _columns_fit(event), "the columns of an accepted event differ in length"
        case Outward():
            assert event.event in OUTWARD_EVENTS, event.event
        case Turned():
            assert event.event in TURNED_EVENTS and _ids_fit(event), event
        case RouterChange():
            assert event.event in STATE_EVENTS and stands_for(event) >= 0, event
            return 3, event.at_ns, event.mono_ns, event.event, _fields(event)
        case Noted():
            assert event.event not in KNOWN_EVENTS and _noted_ids_fit(event), event
            return 4, event.at_ns, event.mono_ns, event.event, event.service, event.ids, event.reason, _fields(event)
    return _TAGS[type(event)], *msgspec.structs.astuple(event)


def _fields(event: RouterChange | Noted) -> list[tuple[Plain, Plain]]:
    return [(storable(name), storable(value)) for name, value in event.fields]


def _columns_fit(event: Accepted) -> bool:
    count, rest = divmod(len(event.ids), ID_BYTES)
    width = count * WORD_BYTES
    return bool(count) and not rest and len(event.sizes) == len(event.ttls) == len(event.expiries) == width


def _ids_fit(event: Turned) -> bool:
    count, rest = divmod(len(event.ids), ID_BYTES)
    return not rest and count <= event.count


def _noted_ids_fit(event: Noted) -> bool:
    count, rest = divmod(len(event.ids), ID_BYTES)
    return not rest and count <= NOTED_IDS_MAX


def storable(value: Plain) -> Plain:
    """Return a value that the log can hold: text without surrogates, numbers of more than 18 digits as text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\ufffd", "?")
    if isinstance(value, int) and not -FIELD_MAX <= value <= FIELD_MAX:
        return str(value)
    return value


def decode_events(value: bytes) -> Logged:
    """Return the events of one value of the store; raise `Malformed` if it is none."""
    try:
        stream = BytesIO(value)
        raw = cbor2.CBORDecoder(stream, max_depth=8).decode()
    except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise Malformed(f"a value of the event log is not CBOR: {str(error)[:120]}") from None
    if stream.tell() != len(value):
        raise Malformed(f"{len(value) - stream.tell()} bytes follow a value of the event log")
    if not isinstance(raw, list) or len(raw) != 4:
        raise Malformed("a value of the event log is [version, first sequence number, boot, [events]]")
    if raw[0] != VERSION:
        text = f"a value of the event log has version {str(raw[0])[:20]}; this router reads version {VERSION}"
        raise Malformed(text)
    try:
        first_seq, boot, events = msgspec.convert(raw[1:], tuple[Positive, Boot, list[Event]])
    except msgspec.ValidationError as error:
        raise Malformed(f"a value of the event log has a wrong shape: {str(error)[:120]}") from None
    for event in events:
        _check(event)
    return Logged(first_seq, boot, events)


def _check(event: Event) -> None:
    match event:
        case Accepted():
            if not _columns_fit(event):
                raise Malformed("the columns of an accepted event differ in length")
        case Turned():
            if not _ids_fit(event):
                raise Malformed(f"{len(event.ids)} bytes are not the ids of at most {event.count} messages")
        case RouterChange() | Noted():
            if isinstance(event, Noted) and not _noted_ids_fit(event):
                raise Malformed(f"{len(event.ids)} bytes are not the ids of at most {NOTED_IDS_MAX} messages")
            for name, value in event.fields:
                if not isinstance(value, str | int | bytes):
                    kind = type(value).__name__
                    raise Malformed(f"the field {name[:40]} of a {event.event} event is a {kind}")


# -- counters -------------------------------------------------------------------------------------------


class EventCounts:
    """Message counts by event and reason since this router started; bounded by the names of events and the numbers of
    reasons.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int | None]] = Counter()

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Accepted():
                    self._counts["accepted", None] += span(event)
                case RouterChange() | Noted():
                    self._counts[event.event, None] += stands_for(event)
                case _:
                    self._counts[event.event, event.reason] += stands_for(event)

    def plus(self, events: Iterable[Event]) -> EventCounts:
        """Return new counts that include these events too."""
        found = EventCounts()
        found._counts.update(self._counts)
        found.add(events)
        return found

    def minus(self, part: EventCounts) -> EventCounts:
        """Return new counts without those of a part."""
        found = EventCounts()
        found._counts = self._counts - part._counts
        return found

    def events(self) -> dict[str, int]:
        """Return the messages by event: `{"accepted": 7, "delivered": 12}`."""
        totals: Counter[str] = Counter()
        for (event, _), count in self._counts.items():
            totals[event] += count
        return dict(totals)

    def reasons(self, event: str | None = None) -> dict[str, int]:
        """Return the messages by the word of their reason, for one event or for all."""
        totals: Counter[str] = Counter()
        for (name, reason), count in self._counts.items():
            if reason is not None and event in (None, name):
                totals[reason_word(reason)] += count
        return dict(totals)

    def rows(self) -> list[tuple[str, str, int]]:
        """Return the messages by event and by the word of their reason, "" without one."""
        found = (
            (event, "" if reason is None else reason_word(reason), n) for (event, reason), n in self._counts.items()
        )
        return sorted(found)

    def __repr__(self) -> str:
        said = ", ".join(f"{count} {event}" for event, count in sorted(self.events().items()))
        return f"<Counts: {said or 'nothing yet'}>"
