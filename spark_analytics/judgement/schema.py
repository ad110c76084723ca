"""The event log as the analytics read it: columns, words, and what a file's name says (`cddl/segment.cddl`)."""

from __future__ import annotations

import re

VERSION = 1
SCHEMA = "upsycle event log 1"

COLUMNS = {
    "v": "BIGINT", "event": "STRING", "seq": "BIGINT", "n": "BIGINT", "t": "BIGINT", "mono": "BIGINT",
    "router": "STRING", "boot": "STRING", "kind": "STRING", "source": "STRING", "group": "STRING",
    "signer": "STRING", "destination": "STRING", "peer": "STRING", "link": "BIGINT", "first": "BIGINT",
    "count": "BIGINT", "ids": "STRING", "sizes": "ARRAY<BIGINT>", "ttls": "ARRAY<BIGINT>",
    "expiries": "ARRAY<BIGINT>", "recipients": "ARRAY<STRING>", "recipient": "STRING",
    "ranges": "ARRAY<ARRAY<BIGINT>>", "parcel": "BIGINT", "reason": "STRING", "attempt": "BIGINT",
    "depth": "BIGINT", "duration_ns": "BIGINT", "bytes": "BIGINT", "fields": "MAP<STRING,STRING>", "schema": "STRING",
    "first_seq": "BIGINT", "last_seq": "BIGINT", "segments": "BIGINT", "lines": "BIGINT",
    "counts": "MAP<STRING,BIGINT>", "min_t": "BIGINT", "max_t": "BIGINT", "predecessor": "STRING",
    "sha256": "STRING", "signature": "STRING",
}  # fmt: skip
"""Every column of every line, as Spark spells its type. One that a line lacks is null."""

ENDS = ("delivered", "acked", "unconfirmed", "refused", "expired", "dropped", "evicted")
"""The events that end a unit at its router, in order of precedence."""

STATES = (*ENDS, "unknown", "pending", "unaccounted")
"""A unit (router, arrival, recipient named in `accepted`) is in exactly one: the first that applies."""

OUTWARD_EVENTS = ("forwarded", "delivered", "acked", "deferred", "expired", "refused", "dropped", "evicted",
                  "unconfirmed", "pulled", "recovered")  # fmt: skip
TURNED_EVENTS = ("refused", "duplicate")
ROUTE_EVENTS = ("route_add", "route_del", "join", "leave", "link_up", "link_down", "advert")
STATE_EVENTS = ("start", "stop", "config", "link", "clock_step", "log_gap", *ROUTE_EVENTS)
FRAME_EVENTS = ("segment", "seal")
"""Header and footer of a file: no events."""

EPOCH_NS = 1_577_836_800 * 10**9
"""2020-01-01T00:00Z: expiries count minutes from here."""

COUNT_MAX = 1 << 40
"""A line that claims to stand for more messages counts for so many: no log has them, and sums stay within 64 bits."""

EXPIRY_MAX = 100_000_000
"""Minutes since 2020; later ones count as this one (year 2210), so that nanoseconds fit 64 bits."""

NUMBER_OF_TEXT = "CASE WHEN length({0}) < 19 AND translate({0}, '0123456789', '') = '' THEN try_cast({0} AS bigint) END"
"""The whole number that a field, which is text, is in digits alone; null if it is none. In the SQL of either engine."""

UNLIKE = "(not as the schema says)"
"""The event that an engine makes of a line that is none; its file does not count."""

GRACE_NS = 600 * 10**9
"""How long after its due time a unit without an end is still `pending`."""

TTL_S_MAX = (1 << 32) - 1
"""No ttl is longer."""

OVERDUE_NS = 86_400 * 10**9
"""So long after its due time a unit without an end is still under way only for a cause that somebody should look at."""

_ROLES = {
    "segment": re.compile(r"events-(\d{16})\.jsonl"),
    "tail": re.compile(r"tail-(\d+)\.jsonl"),
    "pruned": re.compile(r"pruned\.jsonl()"),
    "aside": re.compile(r"\.aside-.*?(\d{16})?\.jsonl"),
}


def role(path: str) -> str | None:
    """What the file is by its name: `segment`, `tail`, `pruned`, `aside` (told of, not read), None: no candidate."""
    name = path.rsplit("/", 1)[-1]
    return next((role for role, pattern in _ROLES.items() if pattern.fullmatch(name)), None)


def named_seq(path: str) -> int | None:
    """The first sequence number that the name of a segment or tail says; None: it says none."""
    name = path.rsplit("/", 1)[-1]
    found = _ROLES["segment"].fullmatch(name) or _ROLES["tail"].fullmatch(name)
    return int(found[1]) if found else None
