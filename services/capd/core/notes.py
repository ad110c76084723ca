"""Log events about messages, each about up to 64.

Ids are logged as people see them, so that `why` finds them. The audit balances the events (`cddl/segment.cddl`,
"handover"): a message is owed to the pool itself from when it was taken until its end: displaced, faded, expired or
rescinded. In a pool that nothing displaces, a message may stay for ever, so the events name no time until which it is
due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons

from .columns import Row
from .pool import Taken
from .priority import RELAY_PRIORITY, aged, last_second

T = TypeVar("T")
MESSAGES_MAX = 64
"""Most messages in one event."""
POOL = "pool"
"""The recipient that the log names for messages in the pool."""
OWED = {"handover": "owed", "recipients": POOL}
ENDED = {"handover": "ended", "recipient": POOL}


def note_id(own_id: bytes) -> MessageId | None:
    """Return the id for a log event; None for bytes that are no message and so have no id."""
    return MessageId(own_id[::-1]) if own_id else None


def accepted(rows: Sequence[Row], by: str, now_s: int) -> Iterator[c.LogEvent]:
    """Yield the events of messages that were taken. `by`: the address or the neighbour that brought them."""
    for some in _parts(rows):
        each: dict[str, Sequence[str | int]] = {
            "raw": [row.id.hex() for row in some],
            "priority": [f"{aged(row.initial, row.create_time, now_s):.6g}" for row in some],
            "bytes": [row.counted_bytes for row in some],
            "relay_until": [last_second(row.initial, row.create_time, RELAY_PRIORITY) for row in some],
        }
        yield _note("capd_accepted", some, None, {"by": by, **OWED}, each)


def evicted(taken: Sequence[Taken]) -> Iterator[c.LogEvent]:
    """Yield the events of messages that these displaced, except those that had ended before."""
    lost = [(one, each.row.id[::-1].hex()) for each in taken for one in each.lost]
    for reason in dict.fromkeys(one.reason for one, _ in lost if one.reason is not None):
        found = [(one.row, by) for one, by in lost if one.reason is reason]
        for some in _parts(found):
            yield _note("capd_evicted", [row for row, _ in some], reason, ENDED, {"by": [by for _, by in some]})


def sent(rows: Sequence[Row], to: str) -> Iterator[c.LogEvent]:
    """Yield the events of messages that were sent to a neighbour."""
    for some in _parts(rows):
        yield _note("capd_sent", some, None, {"to": to}, {})


def rescinded(rows: Sequence[Row], by: str, reason: Reason) -> Iterator[c.LogEvent]:
    """Yield the events of messages that a secret has ended. `by`: the address or the neighbour that sent it."""
    for some in _parts(rows):
        yield _note("capd_rescinded", some, reason, {"by": by, **ENDED}, {})


def expired(rows: Sequence[Row]) -> Iterator[c.LogEvent]:
    """Yield the events of messages whose own expiration has come."""
    for some in _parts(rows):
        yield _note("capd_expired", some, reasons.EXPIRED, ENDED, {})


def _note(
    event: str,
    rows: Sequence[Row],
    reason: Reason | None,
    fields: Mapping[str, str],
    each: Mapping[str, Sequence[str | int]],
) -> c.LogEvent:
    """Return an event; about a single message, the values that differ by message are plain fields."""
    numbers = {"number": [row.number for row in rows]} if "handover" in fields else {}
    ids = [MessageId(row.id[::-1]) for row in rows]
    if len(rows) == 1:
        said = {**fields, **{name: value[0] for name, value in each.items()}}
        return c.LogEvent(event, ids[0], reason, said, (), numbers)
    return c.LogEvent(event, None, reason, fields, ids, {**each, **numbers})


def _parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    return (rows[at : at + MESSAGES_MAX] for at in range(0, len(rows), MESSAGES_MAX))
