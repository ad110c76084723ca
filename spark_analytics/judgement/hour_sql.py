"""Gold tables by the hour about recipients, handovers and services, in the manner of `gold_sql`.

`limit_ns`, `target_ppm`: numbers of the audit (`slo.Slo`).
"""

from __future__ import annotations

from spark_analytics.judgement.spoilt_hours import SPOILT

WEEK_HOURS = 7 * 24
FULL_S_MAX = 9 * 10**9
"""Longest forecast in seconds: no number of a hostile log makes a longer one."""

SLO_HOUR = """
WITH judged AS (
    SELECT router, CAST((minute - minute % 60) / 60 AS BIGINT) AS hour,
        CAST(sum(owed - pending - unknown - unconfirmed) AS BIGINT) AS owed,
        CAST(sum(delivered + acked) AS BIGINT) AS arrived
    FROM {audit_window}
    GROUP BY router, CAST((minute - minute % 60) / 60 AS BIGINT)
),
wait AS (
    SELECT router, CAST((minute - minute % 60) / 60 AS BIGINT) AS hour, count, max_ns,
        CAST(
            (bucket + 1 - 128 * greatest(0, floor(bucket / 128) - 1)) * power(2, greatest(0, floor(bucket / 128) - 1))
            AS BIGINT
        ) - 1 AS edge_ns
    FROM {hop_latency}
),
timely AS (
    SELECT router, hour, CAST(sum(CASE WHEN least(edge_ns, max_ns) <= {limit_ns} THEN count ELSE 0 END) AS BIGINT) AS n
    FROM wait
    GROUP BY router, hour
),
met AS (
    SELECT judged.router, judged.hour, owed, arrived, least(arrived, coalesce(n, 0)) AS within
    FROM judged
    LEFT JOIN timely ON timely.router = judged.router AND timely.hour = judged.hour
    WHERE owed > 0
)
SELECT router, hour,
    CAST({target_ppm} AS BIGINT) AS target_ppm,
    CAST({limit_ns} AS BIGINT) AS limit_ns,
    owed, within, arrived - within AS late, owed - arrived AS missed,
    floor(CAST(owed - within AS DOUBLE) * 100000000 / (CAST(owed AS DOUBLE) * (1000000 - {target_ppm}))) / 100 AS burn
FROM met
"""
"""Key (router, hour of acceptance): how much of what was owed arrived at its hop `within` the limit, arrived `late`, or
was `missed`: ended otherwise, or lost. `owed` leaves out what is pending, unknown or `unconfirmed`: handed over with a
ttl of 0, which asks for no answer, so that nobody can tell whether and when it arrived. A wait counts by the upper edge
of its bucket, which is at most 1 % above it. `burn`: what did not arrive in time by what the target allows, with two
decimals; above 1 the hour uses more than its part of the budget."""

QUEUE_HOUR = f"""
WITH {SPOILT},
changed AS (
    SELECT router, recipient, CAST((minute - minute % 60) / 60 AS BIGINT) AS hour,
        CAST(sum(added) AS BIGINT) AS added,
        CAST(sum(ended) AS BIGINT) AS ended,
        max_by(open, minute) AS open,
        max(open) AS open_max
    FROM {{queue_minute}}
    GROUP BY router, recipient, CAST((minute - minute % 60) / 60 AS BIGINT)
),
placed AS (
    SELECT router, recipient, hour AS place, hour AS own, CAST(NULL AS BIGINT) AS hour FROM changed
    UNION ALL
    SELECT router, recipient, hour - {WEEK_HOURS}, CAST(NULL AS BIGINT), hour FROM changed
),
earlier AS (
    SELECT router, recipient, hour, max(own) OVER (
        PARTITION BY router, recipient ORDER BY place RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS before
    FROM placed
),
grown AS (
    SELECT changed.router, changed.recipient, changed.hour, changed.added, changed.ended,
        changed.added - changed.ended AS growth, changed.open, changed.open_max, messages_max, week.open AS week_open
    FROM changed
    JOIN earlier
        ON earlier.router = changed.router AND earlier.recipient = changed.recipient AND earlier.hour = changed.hour
    LEFT JOIN changed week
        ON week.router = changed.router AND week.recipient = changed.recipient AND week.hour = earlier.before
    LEFT JOIN {{queue_limit}} config ON config.router = changed.router
)
SELECT grown.router, recipient, grown.hour, added, ended, growth, open, open_max, messages_max,
    CASE WHEN open >= messages_max THEN 0
        WHEN growth > 0 AND messages_max IS NOT NULL THEN CAST(
            floor(least({FULL_S_MAX}, CAST(messages_max - open AS DOUBLE) * 3600 / growth)) AS BIGINT
        ) END AS full_in_s,
    week_open,
    spoilt.hour IS NOT NULL AS is_spoilt
FROM grown
LEFT JOIN spoilt ON spoilt.router = grown.router AND spoilt.hour = grown.hour
"""
"""Key (router, recipient, hour): the hours in which a queue changed. `open`: at the hour's end; `open_max`: at the end
of its worst minute; `messages_max`: the limit that the router's last `config` states; `full_in_s`: seconds from the
hour's end until it is reached at the growth of this hour, null if it does not grow; `week_open`: `open` of the same
hour a week before, null if the queue was not known then; `is_spoilt`: the router's clock jumped across the hour, so
that messages are counted at wrong times. The depth is never less than none."""

SERVICE_HOUR = """
SELECT router, hour, service, event, reason,
    CAST(sum(count) AS BIGINT) AS count, CAST(sum(lines) AS BIGINT) AS lines
FROM {served}
GROUP BY router, hour, service, event, reason
"""
"""Key (router, hour, service, event, reason): the events that services of a router wrote (`router`: its own), and what
they count. An export withholds the service's name. `served`: rows with the same columns."""

CUSTODY_HOUR = """
SELECT router, recipient, hour,
    CAST(sum(acked) AS BIGINT) AS acked,
    CAST(sum(followed) AS BIGINT) AS followed,
    CAST(sum(broken) AS BIGINT) AS broken,
    CAST(sum(unknown) AS BIGINT) AS unknown
FROM {passed_on}
GROUP BY router, recipient, hour
"""
"""Key (router, recipient, hour of acceptance): `custody` by the hour. `passed_on`: rows with the same columns."""

TEXTS = {
    "slo_hour": SLO_HOUR,
    "queue_hour": QUEUE_HOUR,
    "service_hour": SERVICE_HOUR,
    "custody_hour": CUSTODY_HOUR,
}
WRITTEN = ("audit_window", "hop_latency", "queue_minute")
"""The published tables that the texts read."""
SOURCES = ("queue_limit", "served", "passed_on")
"""The other tables that they read. `queue_limit`: router, messages_max."""
