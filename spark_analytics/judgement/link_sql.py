"""Claims about links and runs that a router's own log contradicts, as `claim_sql` finds others.

`pong`: the lines `link`, each of a neighbour's answer on a link that is up (`router`, `boot`, `seq`, `t`, `peer`);
`boot`: the runs (`router`, `boot`, `seq` of the first line, `last_seq` of the last).
"""

from __future__ import annotations

PONG = "link"
"""The event of a neighbour's answer, which its router writes only while it has a link with it."""
LATE_NS = 60 * 10**9
"""Nanoseconds by which a router may write down an answer later than it came: it stood still."""

OWN = """
SELECT router, boot, seq, t, event, peer,
    sum(CASE event WHEN 'link_up' THEN 1 WHEN 'link_down' THEN -1 ELSE 0 END) OVER own AS up,
    max(CASE WHEN event = 'link_down' THEN seq END) OVER own AS down_seq,
    lag(event) OVER own AS last_event, lag(seq) OVER own AS last_seq, lag(t) OVER own AS last_t
FROM (
    SELECT router, boot, seq, t, event, peer
    FROM {change}
    WHERE event IN ('link_up', 'link_down') AND peer IS NOT NULL
    UNION ALL
    SELECT router, boot, seq, t, 'pong', peer FROM {pong}
) told
WINDOW own AS (PARTITION BY router, boot, peer ORDER BY seq)
"""
"""The lines about a neighbour's links and the answers: how many links with it are `up` after each, where the last went
down (`down_seq`), and of which line of that neighbour and run it is the next (`last_event`, `last_seq`, `last_t`)."""
OWNS = f"WITH own AS ({OWN}),"
"""How the texts begin that read these."""

HEARD_WHEN_DOWN = f"""
{OWNS}
begun AS (
    SELECT router, boot, min(seq) AS seq FROM {{change}} WHERE event = 'start' GROUP BY router, boot
),
unnamed AS (
    SELECT DISTINCT router, boot FROM {{change}} WHERE event = 'link_up' AND peer IS NULL
),
renewed AS (
    SELECT router, old_key AS peer FROM {{change}} WHERE event = 'renewal'
    UNION
    SELECT router, new_key FROM {{change}} WHERE event = 'renewal'
)
SELECT told.router, told.peer, CAST(count(*) AS BIGINT) AS count, min(told.seq) AS seq,
    min_by(coalesce(down_seq, begun.seq), told.seq) AS accepted_seq
FROM own told
JOIN {{log}} log ON log.router = told.router
JOIN begun ON begun.router = told.router AND begun.boot = told.boot
LEFT JOIN unnamed ON unnamed.router = told.router AND unnamed.boot = told.boot
LEFT JOIN renewed ON renewed.router = told.router AND renewed.peer = told.peer
WHERE told.event = 'pong' AND up <= 0 AND is_whole AND unnamed.router IS NULL AND renewed.router IS NULL
GROUP BY told.router, told.peer
"""
"""Answers of neighbours with which a router has no link by its own log, which is whole from the start of that run on:
`accepted_seq` is where the last of them went down, or the start. A run in which links are counted without their names
is not judged, nor a key that follows another or is followed by one."""

BEGUN_TWICE = """
WITH told AS (
    SELECT router, boot, min(seq) AS seq
    FROM {change}
    WHERE event IN ('start', 'link_up', 'link_down', 'join')
    GROUP BY router, boot
),
amid AS (
    SELECT change.router, change.seq, max(run.seq) AS run_seq
    FROM {change} change
    JOIN {boot} run ON run.router = change.router AND run.seq < change.seq AND run.last_seq >= change.seq
    LEFT JOIN told ON told.router = change.router AND told.boot = change.boot
    WHERE change.event = 'start' AND (run.boot <> change.boot OR told.seq < change.seq)
    GROUP BY change.router, change.seq
)
SELECT amid.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count, min(seq) AS seq,
    min_by(run_seq, seq) AS accepted_seq
FROM amid JOIN {log} log ON log.router = amid.router
WHERE is_whole
GROUP BY amid.router, log.key
"""
"""Starts amid a run, in logs that are whole: a run begins once, and no other begins before its last line. A run's own
start may come behind what was done before it, such as the renewal of the router's key, and in earlier versions the
leaves of throwaway keys that were connected when the router was killed; but behind no link and no join. Whoever writes
such a start ends by it what the log tells of links."""

LINE = """line AS (
    SELECT router, boot, seq, t, event, peer FROM {change}
    UNION ALL
    SELECT router, boot, seq, t, 'pong', peer FROM {pong}
)"""
"""The step that puts the lines about links and the answers together."""
LINKED_THERE = f"""
{OWNS}
{LINE},
odd AS (
    SELECT router FROM {{change}} WHERE event IN ('clock_step', 'renewal') OR event = 'link_up' AND peer IS NULL
),
known AS (
    SELECT * FROM {{log}} log WHERE is_unbroken AND router NOT IN (SELECT router FROM odd)
),
moment AS (
    SELECT router, t, lag(t) OVER (PARTITION BY router ORDER BY t) AS before_t,
        lead(t) OVER (PARTITION BY router ORDER BY t) AS after_t
    FROM (SELECT DISTINCT router, t FROM line) moment
),
ending AS (
    SELECT router, max(before_t) AS t FROM moment GROUP BY router
),
gap AS (
    SELECT own.router, peer, event, up, seq, after_t AS from_t,
        lead(before_t) OVER (PARTITION BY own.router, peer ORDER BY seq) AS to_t
    FROM own JOIN moment ON moment.router = own.router AND moment.t = own.t
    WHERE event <> 'pong'
),
heard AS (
    SELECT here.router, there.key AS peer, own.seq, last_t - upper_ns AS from_t, own.t - lower_ns AS to_t
    FROM own
    JOIN known there ON there.router = own.router
    JOIN known here ON here.key = own.peer
    JOIN {{apart}} apart ON apart.router = here.router AND apart.taker = there.router
    WHERE event = 'pong' AND last_event = 'pong' AND lower_ns <= upper_ns
),
placed AS (
    SELECT router, peer, seq, to_t, max(gap_seq) OVER (
        PARTITION BY router, peer ORDER BY from_t RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS gap_seq
    FROM (
        SELECT router, peer, seq, from_t, to_t, CAST(NULL AS BIGINT) AS gap_seq FROM heard
        UNION ALL
        SELECT router, peer, CAST(NULL AS BIGINT), from_t + {LATE_NS} + 1, CAST(NULL AS BIGINT), seq
        FROM gap
        WHERE event = 'link_down' AND up <= 0 AND from_t IS NOT NULL
    ) moments
),
found AS (
    SELECT gap.router, gap.peer, placed.seq AS heard_seq, gap.seq
    FROM placed
    JOIN gap ON gap.router = placed.router AND gap.peer = placed.peer AND gap.seq = placed.gap_seq
    JOIN ending ON ending.router = gap.router
    WHERE placed.to_t < coalesce(gap.to_t, ending.t)
)
SELECT router, peer, CAST(count(*) AS BIGINT) AS count, min(seq) AS seq, min(heard_seq) AS accepted_seq
FROM found
GROUP BY router, peer
"""
"""Answers that a neighbour had from a router over a link that had lasted since the answer before, at times at which by
that router's log none with it was up. A router that waits for its disk may still answer over a link that has ended, or
already over one of which it has not told: what counts is the time from a minute after a line later than the end, to a
line earlier than the next link. Neither log has a hole before its last event; they count no links without their names,
tell of no clock that was set and of no key that followed another. `apart`: bounds of the neighbour's clock minus the
router's (`router`, `taker`, `lower_ns`, `upper_ns`)."""

TEXTS = {"heard-when-down": HEARD_WHEN_DOWN, "begun-twice": BEGUN_TWICE, "linked-there": LINKED_THERE}
"""The texts by claim."""
