"""Claims about links and runs that a router's own log contradicts, as `claim_sql` finds others.

`pong`: the lines `link`, each of a neighbour's answer on a link that is up (`router`, `boot`, `seq`, `peer`); `boot`:
the runs (`router`, `boot`, `seq` of the first line, `last_seq` of the last).
"""

from __future__ import annotations

PONG = "link"
"""The event of a neighbour's answer, which its router writes only while it has a link with it."""

HEARD_WHEN_DOWN = """
WITH step AS (
    SELECT router, boot, peer, seq, event, CASE event WHEN 'link_up' THEN 1 ELSE -1 END AS added
    FROM {change}
    WHERE event IN ('link_up', 'link_down') AND peer IS NOT NULL
    UNION ALL
    SELECT router, boot, peer, seq, 'pong', 0 FROM {pong}
),
told AS (
    SELECT router, boot, peer, seq, event, sum(added) OVER own AS up,
        max(CASE WHEN added < 0 THEN seq END) OVER own AS down_seq
    FROM step
    WINDOW own AS (PARTITION BY router, boot, peer ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
begun AS (
    SELECT router, boot, min(seq) AS seq FROM {change} WHERE event = 'start' GROUP BY router, boot
),
unnamed AS (
    SELECT DISTINCT router, boot FROM {change} WHERE event = 'link_up' AND peer IS NULL
),
renewed AS (
    SELECT router, old_key AS peer FROM {change} WHERE event = 'renewal'
    UNION
    SELECT router, new_key FROM {change} WHERE event = 'renewal'
)
SELECT told.router, told.peer, CAST(count(*) AS BIGINT) AS count, min(told.seq) AS seq,
    min_by(coalesce(down_seq, begun.seq), told.seq) AS accepted_seq
FROM told
JOIN {log} log ON log.router = told.router
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
WITH amid AS (
    SELECT change.router, change.seq, max(run.seq) AS run_seq
    FROM {change} change
    JOIN {boot} run ON run.router = change.router AND run.seq < change.seq AND run.last_seq >= change.seq
    WHERE change.event = 'start'
    GROUP BY change.router, change.seq
)
SELECT amid.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count, min(seq) AS seq,
    min_by(run_seq, seq) AS accepted_seq
FROM amid JOIN {log} log ON log.router = amid.router
WHERE is_whole
GROUP BY amid.router, log.key
"""
"""Starts amid a run, in logs that are whole: a run begins once, with its first line, and no other begins before its
last. Whoever writes such a start ends by it what the log tells of links."""

TEXTS = {"heard-when-down": HEARD_WHEN_DOWN, "begun-twice": BEGUN_TWICE}
"""The texts by claim."""
