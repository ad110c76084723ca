"""Claims about accepted messages that are owed to nobody, or not to whom they are addressed (`claim_sql` says what the
texts read)."""

from __future__ import annotations

CLAIM = "owed-wrongly"

OWED = """
WITH line AS (
    SELECT change.*,
        min(CASE WHEN event = 'start' THEN seq END)
            OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_start
    FROM {change} change
),
presence AS (
    SELECT router, peer, event, standing, seq,
        least(coalesce(lead(seq) OVER (PARTITION BY router, peer ORDER BY seq), hole_seq),
            coalesce(next_start, hole_seq), hole_seq) AS to_seq
    FROM line JOIN {log} log USING (router)
    WHERE event IN ('link_up', 'link_down') AND peer IS NOT NULL
),
app AS (
    SELECT router, peer, seq, to_seq FROM presence WHERE event = 'link_up' AND standing = 'local'
)
SELECT odd.*, app.seq AS linked_seq
FROM {odd} odd
LEFT JOIN app ON app.router = odd.router AND app.peer = odd.app AND app.seq < odd.seq AND odd.seq < app.to_seq
WHERE odd.app IS NULL OR app.seq IS NOT NULL
"""
"""The lines of `odd` that say to whom a message is owed, and not rightly, by the lines before them."""

OWED_WRONGLY = f"""
WITH told AS (
    SELECT router FROM {{room}} room GROUP BY router HAVING count(met_percent) = count(*)
)
SELECT owed.router, coalesce(owed.peer, log.key) AS peer, CAST(sum(n) AS BIGINT) AS count, min(owed.seq) AS seq,
    CAST(nullif(min_by(coalesce(linked_seq, 0), owed.seq), 0) AS BIGINT) AS accepted_seq
FROM ({OWED}) owed
JOIN told ON told.router = owed.router
JOIN {{log}} log ON log.router = owed.router
WHERE app IS NULL OR owed.router NOT IN (SELECT router FROM {{change}} change WHERE event = 'renewal')
GROUP BY owed.router, coalesce(owed.peer, log.key)
"""
"""Accepted messages that are owed to nobody, by whom they came; unicasts for an app that was connected and that are
owed to others; and copies, which go to routers, owed to an app that was connected. A router refuses what it would owe
to nobody, and what is for an app of its own it owes to that one. An app is connected from its `link_up` to the next
line about it, the next start or hole. A log with renewed keys is judged for the first only. Told of logs of which each
`config` line with limits tells `met_percent`. `odd`: accepted lines (`router`, `peer`, `seq`, `n`; `app`: NULL where
nobody is named, of a unicast the destination where that is not named, of a copy whom it is owed to); others may be left
out. `room`: as of `refusal_sql`."""
