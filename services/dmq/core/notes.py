"""What goes to the log of messages that were taken, read, set aside or have expired: an event tells of up to 64.

The router's audit balances them (`cddl/segment.cddl`, "handovers"): a message is owed to each consumer that had a name
when it was taken, until the consumer has read it, or it is set aside for it, or it expires, or the consumer is named no
more and forgotten (gone.py). It is also owed to the topic's group, if it is to be published there, until the router has
it in custody for the group, or it cannot be published. Other nodes are told of it, and nothing is owed to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.dmq import reasons

from .mempool import Row

Of = TypeVar("Of")
MESSAGES_MAX = 64
"""How many messages one event tells of."""


class Numbered(NamedTuple):
    """A message that may have expired meanwhile, as the log knows it."""

    number: int
    id: bytes


def id_of(own_id: bytes) -> MessageId:
    """Return the id of a message for the log: its own, or the digest of one that has another length."""
    return MessageId(own_id if len(own_id) == 32 else blake2b(own_id, digest_size=32).digest())


def accepted(
    rows: Sequence[Row], recipients: Sequence[str], giver: Callable[[int], str] = lambda number: ""
) -> Iterator[c.LogEvent]:
    """Yield the events of messages that were taken, in the order of their numbers; they are owed to these recipients.
    `giver`: the node that has brought the message of a number, "" if it was a client."""
    fields = {"handover": "owed", "recipients": ",".join(recipients)}
    for some in _parts(rows):
        pools, sizes = [row.pool.hex() for row in some], [row.size for row in some]
        each: dict[str, Sequence[str | int]] = {
            "pool": pools,
            "bytes": sizes,
            "due": [int(row.expires_at) for row in some],
        }
        if any(givers := [giver(row.number) for row in some]):
            each["from"] = givers
        yield _note("dmq_accepted", some, fields, None, each)


def read(rows: Sequence[Row], consumer: str) -> Iterator[c.LogEvent]:
    """Yield the events of messages that a consumer has acknowledged."""
    fields = {"handover": "done", "recipient": consumer}
    for some in _parts(rows):
        yield _note("dmq_read", some, fields)


def published(ones: Sequence[Numbered], group: str) -> Iterator[c.LogEvent]:
    """Yield the events of messages that the router has in custody for the topic's group."""
    for some in _parts(ones):
        yield _note("dmq_published", some, {"handover": "done", "recipient": group})


def unpublished(one: Numbered, group: str, reason: Reason, detail: str) -> c.LogEvent:
    """Return the event of a message that could not be published in the topic's group."""
    return _note("dmq_unpublished", [one], {"handover": "ended", "recipient": group, "detail": detail}, reason)


def spaced_out(rows: Sequence[Row], peer: str) -> Iterator[c.LogEvent]:
    """Yield the events of messages that expired before a node would take them."""
    for some in _parts(rows):
        yield _note("dmq_spaced_out", some, {"peer": peer}, reasons.SPACING)


def set_aside(row: Row, consumer: str) -> c.LogEvent:
    """Return the event of a message that broke a consumer off again and again."""
    return _note("dmq_set_aside", [row], {"handover": "ended", "recipient": consumer}, reasons.SET_ASIDE)


def given_again(row: Row, consumer: str) -> c.LogEvent:
    """Return the event of a message that is to be given once more to a consumer for which it was set aside."""
    return _note("dmq_given_again", [row], {"handover": "owed", "recipients": consumer})


def expired(rows: Sequence[Row]) -> Iterator[c.LogEvent]:
    """Yield the events of messages that have expired, for whoever has not read them."""
    for some in _parts(rows):
        yield _note("dmq_expired", some, {"handover": "ended"}, reasons.EXPIRED)


def gone(consumer: str) -> c.LogEvent:
    """Return the event of a consumer that is named no more and forgotten: nothing is owed to it."""
    fields = {"handover": "ended", "recipient": consumer}
    return c.LogEvent("dmq_consumer_gone", None, reasons.CONSUMER_GONE, fields)


def _note(
    event: str,
    rows: Sequence[Row | Numbered],
    fields: Mapping[str, str],
    reason: Reason | None = None,
    each: Mapping[str, Sequence[str | int]] | None = None,
) -> c.LogEvent:
    numbers = {"number": [row.number for row in rows]}
    return c.LogEvent(event, None, reason, fields, [id_of(row.id) for row in rows], {**numbers, **(each or {})})


def _parts(rows: Sequence[Of]) -> Iterator[Sequence[Of]]:
    return (rows[at : at + MESSAGES_MAX] for at in range(0, len(rows), MESSAGES_MAX))
