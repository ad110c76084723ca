"""Gold tables that both engines make by one SQL text, from small tables that each engine sums for itself.

A name in braces is the name of such a table, or a number of the audit: `since_ns`, `until_ns`, `NUMBERS`. Each text
is read by Spark SQL and by DuckDB (which gets macros for `explode` and `sequence`). Keys are hex, times nanoseconds
since 1970, hours count since 1970; no time stamp counts as later than the audit.
"""

from __future__ import annotations

from spark_analytics.judgement import hour_sql
from spark_analytics.judgement.journey import JOURNEY
from spark_analytics.judgement.schema import COPY
from spark_analytics.judgement.spoilt_hours import HOUR_NS, SPOILT

NS_MAX = (1 << 63) - 1
AWAY_NS = 7 * 24 * HOUR_NS
"""Nanoseconds after the end of a neighbour's link for which `link_hour` still has rows in which the link is down."""
LINK_NS_MAX = 400 * 24 * HOUR_NS
"""Nanoseconds before the end of a log for which `link_hour` has rows; the links of earlier hours are in `topology`."""

REASON_HOUR = """
SELECT router, hour, event, reason, at_door,
    CAST(sum(count) AS BIGINT) AS count, CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(lines) AS BIGINT) AS lines
FROM {reason}
GROUP BY router, hour, event, reason, at_door
"""
"""Key (router, hour, event, reason, at_door): lines that give a reason, and the messages that they count. `bytes`: of
what was turned away at the door; null for ends. `reason`: rows with the same columns."""

GROUP_HOUR = f"""
WITH arrived AS (
    SELECT router, hour, group_key,
        CAST(sum(CASE WHEN kind = '{COPY}' THEN 0 ELSE messages END) AS BIGINT) AS messages,
        CAST(sum(CASE WHEN kind = '{COPY}' THEN 0 ELSE bytes END) AS BIGINT) AS bytes,
        CAST(sum(CASE WHEN kind = '{COPY}' THEN messages ELSE 0 END) AS BIGINT) AS copies,
        CAST(sum(CASE WHEN kind = '{COPY}' THEN bytes ELSE 0 END) AS BIGINT) AS copied_bytes,
        count(DISTINCT CASE WHEN kind = '{COPY}' OR peer IN (SELECT router FROM {{log_span}}) THEN NULL ELSE peer END)
            AS publishers
    FROM {{arrival}}
    WHERE group_key IS NOT NULL
    GROUP BY router, hour, group_key
),
owed AS (
    SELECT router, CAST((minute - minute % 60) / 60 AS BIGINT) AS hour, signer AS group_key,
        count(DISTINCT recipient) AS recipients,
        CAST(sum(owed) AS BIGINT) AS owed,
        CAST(sum(delivered) AS BIGINT) AS delivered,
        CAST(sum(acked) AS BIGINT) AS acked
    FROM {{delivery}}
    WHERE kind = 'multicast'
    GROUP BY router, CAST((minute - minute % 60) / 60 AS BIGINT), signer
)
SELECT arrived.router, arrived.hour, arrived.group_key, messages, bytes, copies, copied_bytes, publishers,
    coalesce(recipients, 0) AS recipients,
    coalesce(owed, 0) AS owed,
    coalesce(delivered, 0) AS delivered,
    coalesce(acked, 0) AS acked
FROM arrived
LEFT JOIN owed
    ON owed.router = arrived.router AND owed.hour = arrived.hour AND owed.group_key = arrived.group_key
"""
"""Key (router, hour, group_key): the multicasts that a router accepted. `copies` are those that a service of it sent on
to another router; the other columns leave them out. `publishers`: keys that brought them, routers with a log here
aside; `owed`, `delivered`, `acked`: units, as in `delivery`. `arrival`: key (router, hour, kind, group_key, peer),
`messages` and `bytes` accepted; `log_span`: the routers."""

TOPOLOGY = f"""
WITH line AS (
    SELECT router, seq, t, event, peer, link, before_t,
        sum(CASE WHEN event = 'start' THEN 1 ELSE 0 END)
            OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
    FROM {{link_line}}
),
stopped AS (
    SELECT router, run - 1 AS run, before_t FROM line WHERE event = 'start'
),
connection AS (
    SELECT router, peer, link, run,
        min(CASE WHEN event = 'link_up' THEN t END) AS up_ns,
        max(CASE WHEN event = 'link_down' THEN t END) AS down_ns
    FROM line
    WHERE event <> 'start'
    GROUP BY router, peer, link, run
),
open AS (
    SELECT connection.router, peer, coalesce(up_ns, least(start_ns, down_ns)) AS since_ns,
        coalesce(down_ns, before_t, {NS_MAX}) AS until_ns
    FROM connection
    JOIN {{log_span}} ends ON ends.router = connection.router
    LEFT JOIN stopped ON stopped.router = connection.router AND stopped.run = connection.run
),
ordered AS (
    SELECT router, peer, since_ns, greatest(since_ns, until_ns) AS until_ns,
        max(until_ns) OVER (
            PARTITION BY router, peer ORDER BY since_ns, until_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM open
),
numbered AS (
    SELECT router, peer, since_ns, until_ns,
        sum(CASE WHEN before_ns >= since_ns THEN 0 ELSE 1 END) OVER (
            PARTITION BY router, peer ORDER BY since_ns, until_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS number
    FROM ordered
)
SELECT router, peer AS neighbour, min(since_ns) AS since_ns,
    CASE WHEN max(until_ns) < {NS_MAX} THEN max(until_ns) END AS until_ns
FROM numbered
GROUP BY router, peer, number
"""
"""Key (router, neighbour, since_ns): when a router had a link to a neighbour, by its own log; several at a time count
as one. `until_ns`: null if it is up where the log ends. A link without a `link_up` in the log is up from the log's
start on; one without a `link_down` ends where the router last wrote about itself before its next start. `link_line`:
link_up and link_down of neighbours, and starts, with the time of the line before; `log_span`: the times at which each
log starts and ends."""

LINK_HOUR = f"""
WITH {SPOILT},
period AS (
    SELECT linked.router, neighbour, since_ns, least(coalesce(until_ns, end_ns), end_ns) AS until_ns, end_ns,
        lead(since_ns) OVER (PARTITION BY linked.router, neighbour ORDER BY since_ns) AS next_ns
    FROM {{topology}} linked
    JOIN {{log_span}} ends ON ends.router = linked.router
),
clipped AS (
    SELECT router, neighbour,
        greatest(since_ns, {{since_ns}}, end_ns - {LINK_NS_MAX}) AS since_ns,
        least(until_ns, {{until_ns}}) AS until_ns,
        least(end_ns, {{until_ns}}, coalesce(next_ns, end_ns), until_ns + {AWAY_NS}) AS stop_ns
    FROM period
),
each_hour AS (
    SELECT router, neighbour, since_ns, until_ns, stop_ns,
        explode(sequence(
            CAST((since_ns - since_ns % {HOUR_NS}) / {HOUR_NS} AS BIGINT),
            CAST((stop_ns - 1 - (stop_ns - 1) % {HOUR_NS}) / {HOUR_NS} AS BIGINT)
        )) AS hour
    FROM clipped
    WHERE stop_ns > since_ns
),
part AS (
    SELECT router, neighbour, hour, 0 AS ups, 0 AS downs,
        greatest(0, least(until_ns, (hour + 1) * {HOUR_NS}) - greatest(since_ns, hour * {HOUR_NS})) AS up_ns,
        least(stop_ns, (hour + 1) * {HOUR_NS}) - greatest(since_ns, hour * {HOUR_NS}) AS span_ns,
        0 AS sent, 0 AS sent_bytes, 0 AS received, 0 AS received_bytes, 0 AS copies, 0 AS duplicates,
        0 AS duplicate_bytes
    FROM each_hour
    UNION ALL
    SELECT router, peer, CAST((t - t % {HOUR_NS}) / {HOUR_NS} AS BIGINT),
        CASE WHEN event = 'link_up' THEN 1 ELSE 0 END, CASE WHEN event = 'link_down' THEN 1 ELSE 0 END, 0, 0,
        0, 0, 0, 0, 0, 0, 0
    FROM {{link_line}}
    WHERE event <> 'start' AND t >= {{since_ns}} AND t < {{until_ns}}
    UNION ALL
    SELECT router, recipient, hour, 0, 0, 0, 0, messages, bytes, 0, 0, copies, 0, 0 FROM {{handed}}
    UNION ALL
    SELECT router, peer, hour, 0, 0, 0, 0, 0, 0, messages, bytes, 0, 0, 0 FROM {{arrival}} WHERE kind <> '{COPY}'
    UNION ALL
    SELECT router, peer, hour, 0, 0, 0, 0, 0, 0, 0, 0, 0, count, coalesce(bytes, 0)
    FROM {{abuse_hour}}
    WHERE event = 'duplicate'
),
linked AS (
    SELECT DISTINCT router, peer FROM {{link_line}} WHERE event <> 'start'
)
SELECT part.router, neighbour, part.hour,
    CAST(sum(ups) AS BIGINT) AS ups,
    CAST(sum(downs) AS BIGINT) AS downs,
    CAST(sum(up_ns) AS BIGINT) AS up_ns,
    CAST(sum(span_ns) AS BIGINT) AS span_ns,
    CAST(sum(sent) AS BIGINT) AS sent,
    CAST(sum(sent_bytes) AS BIGINT) AS sent_bytes,
    CAST(sum(received) AS BIGINT) AS received,
    CAST(sum(received_bytes) AS BIGINT) AS received_bytes,
    CAST(sum(copies) AS BIGINT) AS copies,
    CAST(sum(duplicates) AS BIGINT) AS duplicates,
    CAST(sum(duplicate_bytes) AS BIGINT) AS duplicate_bytes,
    max(CASE WHEN spoilt.hour IS NULL THEN 0 ELSE 1 END) = 1 AS is_spoilt
FROM part
JOIN linked ON linked.router = part.router AND linked.peer = part.neighbour
LEFT JOIN spoilt ON spoilt.router = part.router AND spoilt.hour = part.hour
GROUP BY part.router, neighbour, part.hour
"""
"""Key (router, neighbour, hour). `up_ns` of `span_ns`: how long the link was up, from the first link to the neighbour
on, and for `AWAY_NS` after the last; `sent`: messages written to it, each time that they were, `copies` those among
them that a service sent on; `received`: accepted from it; `duplicates`: known already, and turned away. `is_spoilt`:
the router's clock jumped across the hour, so that the times in it are not sure. `handed`: key (router, hour,
recipient), what was written to neighbours."""

WRITTEN = ("delivery", "abuse_hour", "topology", *hour_sql.WRITTEN)
"""The published tables that the texts read."""
SOURCES = (
    "arrival",
    "handed",
    "log_span",
    "link_line",
    "clock_step",
    "reason",
    *hour_sql.SOURCES,
    "stop",
    "way",
    "log_key",
    *WRITTEN,
)
"""The tables that the texts read."""
NUMBERS = ("since_ns", "until_ns", "limit_ns", "target_ppm")
"""The numbers of an audit that the texts read."""
TEXTS = {
    "reason_hour": REASON_HOUR,
    "group_hour": GROUP_HOUR,
    "topology": TOPOLOGY,
    "link_hour": LINK_HOUR,
    **hour_sql.TEXTS,
    "journey": JOURNEY,
}
"""The tables, in the order in which they are made: `link_hour` reads another."""
NAMES = tuple(TEXTS)
