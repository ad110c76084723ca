"""The small tables of the store: subscriptions, routes, recorded keys, who is away, queues to clear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cbor2

from router.core.clears import Clear
from router.core.effects import Changes
from router.core.groups import Subscription
from router.core.routes import Route
from router.disk.store_rows import NUMBER, WORD, read_subscription

NAMES = ("groups", "routes", "locals", "away", "clears")


class Tables(NamedTuple):
    """All that stands in them, for the start."""

    subscriptions: list[Subscription]
    routes: list[Route]
    locals: list[bytes]
    away: dict[bytes, int]
    clears: list[Clear]


def read(txn: Any, databases: Mapping[str, Any]) -> Tables:
    groups, routes, known, away, clears = (txn.cursor(databases[name]) for name in NAMES)
    return Tables(
        [read_subscription(key, flags) for key, flags in groups],
        [Route(bytes(key), *cbor2.loads(value)) for key, value in routes],
        [bytes(key) for key, _ in known],
        {bytes(key): WORD.unpack(value)[0] for key, value in away},
        [Clear(bytes(key[:32]), bytes(key[32:]) or None, NUMBER.unpack(before)[0]) for key, before in clears],
    )


def put(txn: Any, databases: Mapping[str, Any], changes: Changes) -> None:
    """Part of a transaction. What is gone goes before what is new."""

    def write(name: str, key: bytes, value: bytes | None) -> None:
        if value is None:
            txn.delete(key, db=databases[name])
        else:
            txn.put(key, value, db=databases[name])

    for (group, subscriber), one in changes.members.items():
        write("groups", group + subscriber, bytes((one.local | one.durable << 1,)) if one else None)
    for destination in changes.routes_gone:
        write("routes", destination, None)
    for route in changes.routes:
        write("routes", route.destination, cbor2.dumps([route.neighbour, route.until_s]))
    for key in changes.locals:
        write("locals", key, b"")
    for key in changes.locals_gone:
        write("locals", key, None)
    for key, since_s in changes.away:
        write("away", key, WORD.pack(since_s) if since_s else None)
    for (recipient, group_or_all), before in changes.clears.items():
        write("clears", recipient + (group_or_all or b""), NUMBER.pack(before) if before else None)
