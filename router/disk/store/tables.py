"""The small tables of the store: subscriptions, routes, recorded keys, absent subscribers, queues to clear, missed
messages, and the judgement of the clock, and the life in which the node stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import cbor2

from router.core.log.life import Life
from router.core.routing.disorder import DISORDERED
from router.core.routing.effects import Changes
from router.core.routing.groups import Subscription
from router.core.routing.purges import Purge
from router.core.routing.recovered import Belief
from router.core.routing.routes import Route
from router.core.wire.link_items import Missed, decode_item, encode_item
from router.disk.store.rows import KEY_BYTES, NUMBER, WORD, read_subscription

NAMES = ("groups", "routes", "locals", "away", "clears", "missed", "book")
EARLIER = b"clock-earlier"
"""The row of `Belief.earlier_ns`, apart from the row of the rest, which older versions read as three values."""


class Tables(NamedTuple):
    """The content of all small tables, for the start."""

    subscriptions: list[Subscription]
    routes: list[Route]
    locals: list[bytes]
    away: dict[bytes, int]
    purges: list[Purge]
    missed: list[tuple[bytes, Missed]]
    book: list[tuple[bytes, bytes]]
    clock: Belief | None
    life: Life


def read(txn: Any, databases: Mapping[str, Any]) -> Tables:
    clock, earlier, life = (txn.get(name, db=databases["meta"]) for name in (b"clock", EARLIER, b"life"))
    groups, routes, known, away, purges, missed, book = (txn.cursor(databases[name]) for name in NAMES)
    return Tables(
        [read_subscription(key, flags) for key, flags in groups],
        [Route(bytes(key), *cbor2.loads(value)) for key, value in routes],
        [bytes(key) for key, _ in known],
        {bytes(key): WORD.unpack(value)[0] for key, value in away},
        [Purge(bytes(key[:32]), bytes(key[32:]) or None, NUMBER.unpack(before)[0]) for key, before in purges],
        [(bytes(key[:32]), cast(Missed, decode_item(bytes(item)))) for key, item in missed],
        [(bytes(key), bytes(value)) for key, value in book],
        Belief(*cbor2.loads(clock))._replace(earlier_ns=cbor2.loads(earlier) if earlier else 0) if clock else None,
        Life(*cbor2.loads(life)) if life else Life(),
    )


def begin_life(txn: Any, databases: Mapping[str, Any], life: Life, arrival: int) -> None:
    """Write a new life, whose first arrival number is `arrival`, and a row for each queue that says that any of its
    messages may have been handed over before."""
    txn.put(b"life", cbor2.dumps(list(life)), db=databases["meta"])
    txn.put(b"state", cbor2.dumps([arrival, life.first_seq]), db=databases["meta"])
    cursor = txn.cursor(databases["queues"])
    found = cursor.first()
    while found:
        recipient = bytes(cursor.key()[:KEY_BYTES])
        txn.put(DISORDERED + recipient, b"", db=databases["book"])
        found = cursor.set_range(recipient + b"\xff" * (NUMBER.size + 1))


def put(txn: Any, databases: Mapping[str, Any], changes: Changes, clock: Belief | None = None) -> None:
    """Write the changes in a transaction. New local keys are written before gone ones are deleted."""

    def write(name: str, key: bytes, value: bytes | None) -> None:
        if value is None:
            txn.delete(key, db=databases[name])
        else:
            txn.put(key, value, db=databases[name])

    if clock is not None:
        judged = clock.judged_ns, clock.shown_ns, clock.state
        txn.put(b"clock", cbor2.dumps(judged), db=databases["meta"])
        if clock.earlier_ns:
            txn.put(EARLIER, cbor2.dumps(clock.earlier_ns), db=databases["meta"])
        else:
            txn.delete(EARLIER, db=databases["meta"])
    for (group, subscriber), one in changes.members.items():
        write("groups", group + subscriber, bytes((one.local | one.durable << 1,)) if one else None)
    for destination, route in changes.routes.items():
        write("routes", destination, cbor2.dumps([route.neighbour, route.until_s]) if route else None)
    for key in changes.locals:
        write("locals", key, b"")
    for key in changes.locals_gone:
        write("locals", key, None)
    for key, since_s in changes.away:
        write("away", key, WORD.pack(since_s) if since_s else None)
    for (recipient, group_or_all), before in changes.purges.items():
        write("clears", recipient + (group_or_all or b""), NUMBER.pack(before) if before else None)
    for (recipient, of, reason), item in changes.missed.items():
        number = reason.to_bytes(1 if reason < 256 else 2, "big")
        write("missed", recipient + number + (of or b""), encode_item(item) if item else None)
    for key, value in changes.book.items():
        write("book", key, value)
