"""The event log as the analytics read it: columns, names, and the meaning of a file's name (`cddl/segment.cddl`)."""

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
"""Every column of every line, with its type in Spark's spelling. A column that a line lacks is null."""

ENDS = ("delivered", "acked", "unconfirmed", "refused", "expired", "dropped", "evicted")
"""The events that end a unit at its router, in order of precedence."""

STATES = (*ENDS, "unknown", "pending", "unaccounted")
"""The states of a unit (router, arrival, recipient named in `accepted`); it is in the first one whose condition
holds."""

OUTWARD_EVENTS = ("forwarded", "delivered", "acked", "deferred", "expired", "refused", "dropped", "evicted",
                  "unconfirmed", "pulled", "recovered")  # fmt: skip
TURNED_EVENTS = ("refused", "duplicate")
NOTED = "_refused"
"""The last words of the names of events that count refused input, by neighbour or network."""
ROUTE_EVENTS = ("route_add", "route_del", "join", "leave", "link_up", "link_down", "advert")
STATE_EVENTS = ("start", "stop", "config", "link", "invite", "met", "clock_step", "log_gap", "alarm", *ROUTE_EVENTS)
FRAME_EVENTS = ("segment", "seal")
"""Header and footer of a file, which are no events."""

EPOCH_NS = 1_577_836_800 * 10**9
"""2020-01-01T00:00Z, from which expiries count minutes."""

COUNT_MAX = 1 << 40
"""The most messages that a line counts for: no real log has as many, and sums stay within 64 bits."""

BYTES_MAX = 1 << 40
"""The most bytes that a line counts for: no real log has as many, and sums stay within 64 bits."""

EXPIRY_MAX = 100_000_000
"""Minutes since 2020; later expiries count as this one (year 2210), so that nanoseconds fit 64 bits."""

NUMBER_OF_TEXT = "CASE WHEN length({0}) < 19 AND translate({0}, '0123456789', '') = '' THEN try_cast({0} AS bigint) END"
"""SQL for the whole number in a text field of digits alone, null if it is none; works in both engines."""

SHORT_S = 5
"""The least `ttl_s_max` of a `config` that excuses what expires before the time of its message: by a shorter one, as
none at all, a router could let everything expire and say that it had to."""
OVER_STEP_NS = -(1 << 62)
"""The wait of a message that cannot be told: it is known by the wall clock alone, which was set meanwhile."""

UNLIKE = "(not as the schema says)"
"""The event that an engine assigns to an invalid line, whose file does not count."""

GRACE_NS = 600 * 10**9
"""Nanoseconds after its due time during which a unit without an end is still `pending`; and by which a router's log
must go on after handovers to it of which none is followed there, so that nothing tells how far its clock is ahead."""

TTL_S_MAX = (1 << 32) - 1
"""The longest possible ttl."""

COPY_NS = 60 * 10**9
"""Nanoseconds that a copy waits at most for a next router that is away, which is known by meetings (R-C29)."""

NEXT_AWAY = "next-away"
"""The reason for which such a copy expires, perhaps long before its ttl is over."""

COPY = "copy"
"""The kind of an acceptance by which a service of the router sends a message on to one other router."""

AHEAD_MAX = 10**11
"""The most events by which the name of a file that is no log may be ahead of the rest of its log, as that of a lost
segment: a thousand events a second for three years. Another name says nothing."""

LEAP_MIN = 10**10
"""The least distance between the event numbers of two lives of a router (router/core/log/life.py)."""

SLACK_NS = 86_400 * 10**9
"""Nanoseconds by which a router's log must go on after a handover to it if nothing tells how far its clock is ahead at
most: only messages that it had from elsewhere before are followed there."""

OVERDUE_NS = 86_400 * 10**9
"""Nanoseconds after its due time during which a missing end is still normal; after that its cause needs attention."""

VIA_BYTES = 34
"""Bytes that VIA adds to a message, which neither its id nor its signature covers: it may come with it or without."""

PACKED = ".zst"
"""The end of the name of a compressed file, whose text is the file that was compressed."""

UNPACKED_BYTES_MAX = 1 << 30
"""Most bytes of text of a compressed file: a router closes a segment long before, and a small file could unpack to
anything."""

_ROLES = {
    "segment": re.compile(r"events-(\d{16})\.jsonl(?:\.zst)?"),
    "tail": re.compile(r"tail-(\d+)\.jsonl(?:\.zst)?"),
    "pruned": re.compile(r"pruned\.jsonl(?:\.zst)?()"),
    "aside": re.compile(r"\.aside-.*?(\d{16})?\.jsonl(?:\.zst)?"),
}


def role(path: str) -> str | None:
    """Return the role of a file by its name: `segment`, `tail`, `pruned`, `aside` (reported, not read), or None for no
    candidate."""
    name = path.rsplit("/", 1)[-1]
    return next((role for role, pattern in _ROLES.items() if pattern.fullmatch(name)), None)


def named_seq(path: str) -> int | None:
    """Return the first sequence number in the name of a segment or tail; None if there is none."""
    name = path.rsplit("/", 1)[-1]
    found = _ROLES["segment"].fullmatch(name) or _ROLES["tail"].fullmatch(name)
    return int(found[1]) if found else None
