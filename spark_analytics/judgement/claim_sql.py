"""Claims of routers that both engines find by one SQL text, from small tables that each engine makes for itself.

A name in braces is the name of such a table. Each text is read by Spark SQL and by DuckDB. Routers are numbers of the
audit, other keys hex, times nanoseconds. A text returns, by `router` and `peer`: the `count` of messages, `seq` of the
first line that says so, and `accepted_seq` of the line that contradicts it. `change`: the lines of `CHANGES`; `log`:
the logs (`router`, `key`, `is_whole`, `is_unbroken`: no event is missing before its last one, `is_restored`,
`pruned_to`, `start_ns`, `end_ns`; `hole_seq`: the first event of its first hole, `NS_MAX` without one).

A neighbour's word alone makes a log end too early (`is_whole` is false). What it holds up to its last event contradicts
others all the same, where nothing that may be missing behind that could explain it.
"""

from __future__ import annotations

from spark_analytics.judgement import door_sql, link_sql, owed_sql, refusal_sql
from spark_analytics.judgement.history_sql import NO_HISTORY
from spark_analytics.judgement.presence_sql import (
    DROPPED,
    HISTORY,
    JOINED_THERE,
    LEFT_OUT,
    NOT_AWAY,
    NOT_LEFT,
)

CHANGES = ("start", "config", "link_up", "link_down", "join", "leave", "clock_step", "renewal", HISTORY, DROPPED)
"""The events of `change`: `router`, `seq`, `t`, `mono`, `boot`, `event`, `ids`, and the fields named below."""
FIELDS = {
    "peer": "peer", "standing": "standing", "group": "group_key", "subscriber": "subscriber", "service": "service",
    "old": "old_key", "new": "new_key", "router": "asked_key", "doubted": "doubted",
}  # fmt: skip
"""Fields of these lines, which are text, and the columns of `change` that hold them."""
NUMBERS = ("link", "clock_moves_s_max", "history_open_max", "groups_per_client_max")
"""Fields of these lines that are numbers, each a column of `change`."""
IS_DOUBTFUL = """coalesce({0}['uplink'] = 'true' OR {0}['blocked'] = 'true' OR {0}['removed'] = 'true'
    OR {0}['revoked'] <> '', FALSE)"""
"""SQL for `is_doubtful` of a `config` line about a neighbour: what it may do here does not follow from its joins. The
argument is the map of fields."""
LOOK_NS = 60 * 10**9
"""Nanoseconds after a jump of its clock within which a router writes `clock_step`."""
BACK_NS = 10**9
"""Nanoseconds by which a line may lie before the one before it: a router writes down what it decides, as it decides
it."""
IS_UNEVEN = f"""coalesce(min_mono < first_mono OR max_mono > last_mono
    OR max_apart_ns - min_apart_ns > {BACK_NS}, FALSE)"""
"""SQL for whether the lines of one file and run are looked at one by one: some lie before the first or after the last
by the monotonic clock, or the wall clock moves against it by more than a second."""
HINT = "/*+ BROADCAST(cut) */"
"""For `{hint}`: lines are many, and those who join are few; a comment for DuckDB."""
NEVER_AGAIN = ("malformed", "bad-signature", "no-subscribers", "no-route", "blocked")
"""Reasons for which no router refuses a message that it has accepted: it knows its id, and says that it has it. For any
other a neighbour may, or the router itself decides so: for its own queues and lengths, for rights, which are looked at
before the index on disk, and for an expiry too far ahead from a neighbour that became a stranger. What is refused for
now ends no message (`impossible_ends`)."""

CLOCK = f"""
WITH moves AS (
    SELECT router, max(clock_moves_s_max) AS most_s FROM {{change}} WHERE clock_moves_s_max IS NOT NULL GROUP BY router
),
step AS (
    SELECT router, boot, seq, mono FROM {{change}} WHERE event = 'clock_step'
),
ordered AS (
    SELECT router, boot, seq, mono, t - mono AS apart_ns,
        lag(seq) OVER (PARTITION BY router, boot ORDER BY seq) AS before_seq,
        lag(mono) OVER (PARTITION BY router, boot ORDER BY seq) AS before_mono,
        lag(t - mono) OVER (PARTITION BY router, boot ORDER BY seq) AS before_ns,
        max(mono) OVER (PARTITION BY router, boot) AS end_mono
    FROM {{timed}}
    WHERE t IS NOT NULL AND mono IS NOT NULL
),
moved AS (
    SELECT ordered.*
    FROM ordered JOIN moves ON moves.router = ordered.router
    WHERE CAST(abs(apart_ns - before_ns) AS DOUBLE)
            > most_s * CAST(1000000000 AS DOUBLE) + CAST(abs(mono - before_mono) AS DOUBLE) / 10
        AND end_mono >= mono + {LOOK_NS}
),
judged AS (
    SELECT router, boot, seq, doubted, lead(seq) OVER (PARTITION BY router, boot ORDER BY seq) AS to_seq
    FROM {{change}}
    WHERE event IN ('start', 'clock_step')
),
known AS (
    SELECT router, boot, min(seq) AS seq FROM judged GROUP BY router, boot
),
excused AS (
    SELECT moved.router, moved.boot, moved.seq
    FROM moved JOIN step
        ON step.router = moved.router AND step.boot = moved.boot AND step.seq > moved.before_seq
    WHERE step.mono <= moved.mono + {LOOK_NS}
    UNION
    SELECT moved.router, moved.boot, moved.seq
    FROM moved JOIN judged
        ON judged.router = moved.router AND judged.boot = moved.boot AND judged.seq <= moved.before_seq
            AND (judged.to_seq IS NULL OR judged.to_seq > moved.before_seq)
    WHERE judged.doubted = 'true'
)
SELECT moved.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count, min(moved.seq) AS seq,
    min_by(before_seq, moved.seq) AS accepted_seq
FROM moved
JOIN {{log}} log ON log.router = moved.router
JOIN known ON known.router = moved.router AND known.boot = moved.boot AND known.seq <= moved.before_seq
LEFT JOIN excused ON excused.router = moved.router AND excused.boot = moved.boot AND excused.seq = moved.seq
WHERE excused.seq IS NULL AND moved.seq < hole_seq
GROUP BY moved.router, log.key
"""
"""Jumps of the wall clock against the monotonic clock of one boot without a `clock_step`, by more than the router lets
pass (`clock_moves_s_max`, and a tenth of the time between both lines); in the last minute of a boot it may not have
looked any more. While it doubts its clock, it writes the later of what that shows and what it believes, which follows
the clocks of its neighbours: such lines are not judged, nor those before the first line of that run that says whether
it does, and from the log's first hole on, which may hold one. `timed`: the lines of boots in which the two differ by
more than that (`router`, `boot`, `seq`, `t`, `mono`)."""

BACK = f"""
WITH ordered AS (
    SELECT router, seq, mono, lag(seq) OVER (PARTITION BY router, boot ORDER BY seq) AS before_seq,
        lag(mono) OVER (PARTITION BY router, boot ORDER BY seq) AS before_mono
    FROM {{paced}}
)
SELECT ordered.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count, min(seq) AS seq,
    min_by(before_seq, seq) AS accepted_seq
FROM ordered JOIN {{log}} log ON log.router = ordered.router
WHERE mono < before_mono - {BACK_NS}
GROUP BY ordered.router, log.key
"""
"""Lines of a monotonic time before that of the line before, in one run: no clock does that. `paced`: of each file and
run the first line and the last, and every line of a file that is `IS_UNEVEN` (`router`, `boot`, `seq`, `mono`)."""

NOT_BEGUN = """
WITH told AS (
    SELECT DISTINCT router FROM {change} WHERE clock_moves_s_max IS NOT NULL
),
begun AS (
    SELECT DISTINCT router, boot FROM {change} WHERE event = 'start'
),
first AS (
    SELECT router, min(seq) AS seq FROM {boot} GROUP BY router
)
SELECT run.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count, min(run.seq) AS seq,
    CAST(NULL AS BIGINT) AS accepted_seq
FROM {boot} run
JOIN told ON told.router = run.router
JOIN {log} log ON log.router = run.router
JOIN first ON first.router = run.router
LEFT JOIN begun ON begun.router = run.router AND begun.boot = run.boot
WHERE is_whole AND begun.boot IS NULL AND (pruned_to = 0 OR run.seq > first.seq)
GROUP BY run.router, log.key
"""
"""Runs of a router without a `start` in its log, which is whole: whoever leaves it out hides that the router was
stopped or killed before. The beginning of the first run may be pruned. `boot`: the runs (`router`, `boot`, `seq` of the
first line)."""

UNLINKED = """
WITH linked AS (
    SELECT router, boot, link, peer, min(seq) AS seq, max(seq) AS last_seq
    FROM {change}
    WHERE event = 'link_up' AND peer IS NOT NULL
    GROUP BY router, boot, link, peer
),
down AS (
    SELECT router, boot, link, seq FROM {change} WHERE event = 'link_down'
),
begun AS (
    SELECT DISTINCT router, boot FROM {change} WHERE event = 'start'
),
followed AS (
    SELECT DISTINCT router, old_key FROM {change} WHERE event = 'renewal'
)
SELECT acked.router, acked.boot, acked.link, acked.recipient, min(linked.seq) AS linked_seq,
    min(CASE WHEN down.seq > linked.last_seq THEN down.seq END) AS down_seq
FROM {acked} acked
JOIN {log} log ON log.router = acked.router
JOIN (
    SELECT router FROM linked UNION SELECT router FROM {change} WHERE clock_moves_s_max IS NOT NULL
) telling ON telling.router = acked.router
LEFT JOIN begun ON begun.router = acked.router AND begun.boot = acked.boot
LEFT JOIN followed ON followed.router = acked.router AND followed.old_key = acked.recipient
LEFT JOIN linked ON linked.router = acked.router AND linked.boot = acked.boot AND linked.link = acked.link
    AND (linked.peer = acked.recipient OR followed.old_key IS NOT NULL)
LEFT JOIN down ON down.router = acked.router AND down.boot = acked.boot AND down.link = acked.link
WHERE is_whole AND (pruned_to = 0 OR begun.boot IS NOT NULL)
GROUP BY acked.router, acked.boot, acked.link, acked.recipient, acked.seq, acked.last_seq
HAVING min(linked.seq) IS NULL OR min(linked.seq) > acked.seq
    OR min(CASE WHEN down.seq > linked.last_seq THEN down.seq END) < acked.last_seq
"""
"""Links over which messages are said to have reached an app or a neighbour before the log tells that they were up, if
it does at all, or after it tells that they went down for good (`router`, `boot`, `link`, `recipient`; `linked_seq`,
`down_seq`: where it tells so). A router names a link before it hands anything over on it, and hears nothing of one that
is down. Told of logs that are whole from the start
of that run on, or from their first event on. A log that names no neighbour of any link is not judged where no
`config` has `clock_moves_s_max`: such routers name them. A key that was
followed by another is told of by its own name, and its links by the later one. `acked`: the links over which messages
were delivered or acknowledged (`router`, `boot`, `link`, `recipient`, `seq` and `last_seq` of the first line and the
last)."""
OFF_LINK = "(seq < coalesce(linked_seq, seq + 1) OR seq > coalesce(down_seq, seq))"
"""SQL for whether a line at `seq`, about a link that `UNLINKED` finds, tells of it while it was not up."""

COPIED = """
WITH told AS (
    SELECT router, min(seq) AS told_seq FROM {change} WHERE clock_moves_s_max IS NOT NULL GROUP BY router
),
service AS (
    SELECT router, subscriber AS peer FROM {change} WHERE event = 'join' AND service IS NOT NULL
    UNION
    SELECT router, new_key FROM {change} WHERE event = 'renewal'
),
inside AS (
    SELECT DISTINCT router, peer FROM {change} WHERE event = 'link_up' AND standing = 'local'
),
unnamed AS (
    SELECT DISTINCT router FROM {change} WHERE event = 'join' AND subscriber IS NULL
)
SELECT copied.router, coalesce(copied.peer, log.key) AS peer, count, seq, CAST(NULL AS BIGINT) AS accepted_seq
FROM {copied} copied
JOIN {log} log ON log.router = copied.router
JOIN told ON told.router = copied.router
LEFT JOIN service ON service.router = copied.router AND service.peer = copied.peer
LEFT JOIN inside ON inside.router = copied.router AND inside.peer = copied.peer
LEFT JOIN unnamed ON unnamed.router = copied.router
WHERE is_whole AND pruned_to = 0 AND seq > told_seq AND service.peer IS NULL
    AND (inside.peer IS NULL OR unnamed.router IS NULL)
"""
"""Copies, which services alone send on, brought by a key that is none of the router's services by its own log, which
begins with its first event: none by that key has joined a group. Where some who joined are only counted, services may
be among them, so then only those are judged that never had a link as a program of the router itself, which a log always
names. `copied`: copies that were accepted (`router`, `peer`, `count`, `seq` of the first line)."""

TEXTS = {
    "copied-by-nobody": COPIED,
    "left-out": LEFT_OUT,
    "not-left": NOT_LEFT,
    "joined-there": JOINED_THERE,
    "no-history": NO_HISTORY,
    "other-time": CLOCK,
    "time-back": BACK,
    "not-begun": NOT_BEGUN,
    "not-away": NOT_AWAY,
    owed_sql.CLAIM: owed_sql.OWED_WRONGLY,
    **door_sql.TEXTS,
    **link_sql.TEXTS,
    **refusal_sql.TEXTS,
}
"""The texts by claim."""
OF_MESSAGES = frozenset(
    (
        "left-out",
        "copied-by-nobody",
        "not-left",
        "joined-there",
        "not-away",
        door_sql.UNTURNED,
        owed_sql.CLAIM,
        *refusal_sql.TEXTS,
    )
)
"""The claims of which `seq` is a line of messages: each is named by the first message of that line."""
