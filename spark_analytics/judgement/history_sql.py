"""The claim about messages that were asked for as history and were none, which both engines find by one SQL text
(`claim_sql`, which says what the texts read)."""

from __future__ import annotations

from spark_analytics.judgement.presence_sql import HISTORY, NS_MAX, STAYS
from spark_analytics.judgement.schema import GRACE_NS

ASKED_NS = 10**9
"""By how much a router must have accepted a message later than it was asked for it, to have lacked it then."""

NO_HISTORY = f"""
{STAYS}
asking AS (
    SELECT line.router, line.seq, line.t, group_key, log.router AS taker, ids
    FROM line
    JOIN {{log}} log ON log.key = asked_key
    WHERE event = '{HISTORY}' AND log.pruned_to = 0
),
steady AS (
    SELECT router FROM {{log}} log
    WHERE is_whole AND router NOT IN (SELECT router FROM {{change}} WHERE event = 'clock_step')
),
behind AS (
    SELECT router, taker, max(lower_ns) AS lower_ns, min(upper_ns) AS upper_ns
    FROM (
        SELECT router, taker, lower_ns, upper_ns FROM {{apart}} onward
        UNION ALL
        SELECT taker, router, -upper_ns, -lower_ns FROM {{apart}} back
    ) bounds
    GROUP BY router, taker
    HAVING max(lower_ns) <= min(upper_ns)
),
serving AS (
    SELECT asking.router, asking.seq, max(greatest(membership.t, presence.t)) AS t
    FROM asking
    JOIN membership ON membership.router = asking.router AND membership.group_key = asking.group_key
    JOIN presence ON presence.router = membership.router AND presence.peer = membership.subscriber
    LEFT JOIN stopped ON stopped.router = presence.router AND stopped.run = presence.run
    WHERE membership.event = 'join' AND membership.service IS NOT NULL AND presence.event = 'link_up'
        AND greatest(membership.seq, presence.seq) < asking.seq
        AND least(
            coalesce(membership.to_seq, {NS_MAX}), coalesce(presence.to_seq, {NS_MAX}), coalesce(stopped.seq, {NS_MAX})
        ) > asking.seq
    GROUP BY asking.router, asking.seq
),
wanted AS (
    SELECT asking.router, asking.seq, min(greatest(from_t, serving.t)) AS t
    FROM asking
    JOIN serving ON serving.router = asking.router AND serving.seq = asking.seq
    JOIN stay ON stay.router = asking.router AND stay.group_key = asking.group_key
    WHERE from_seq < asking.seq AND asking.seq < to_seq
    GROUP BY asking.router, asking.seq
),
named AS (
    SELECT asking.*, least(asking.t + {ASKED_NS}, coalesce(wanted.t, asking.t) + {GRACE_NS}) AS latest_t,
        explode(sequence(0, CAST(length(ids) / 64 AS BIGINT) - 1)) AS i
    FROM asking LEFT JOIN wanted ON wanted.router = asking.router AND wanted.seq = asking.seq
),
found AS (
    SELECT DISTINCT named.router, named.taker, named.seq, had.id, had.seq AS accepted_seq
    FROM named
    JOIN {{had}} had ON had.router = named.taker AND had.id = substr(named.ids, 64 * i + 1, 64)
    JOIN behind ON behind.router = named.router AND behind.taker = named.taker
    JOIN steady ON steady.router = named.router
    JOIN steady there ON there.router = named.taker
    WHERE had.t - upper_ns > latest_t
)
SELECT found.router, log.key AS peer, CAST(count(DISTINCT id) AS BIGINT) AS count,
    max(CASE WHEN place = 1 THEN seq END) AS seq, max(CASE WHEN place = 1 THEN accepted_seq END) AS accepted_seq,
    max(CASE WHEN place = 1 THEN id END) AS id
FROM (
    SELECT found.*, row_number() OVER (PARTITION BY router, taker ORDER BY seq, accepted_seq, id) AS place FROM found
) found
JOIN {{log}} log ON log.router = found.taker
GROUP BY found.router, log.key
"""
"""Messages that a router says that it asked another one for as history, although by the log of that one they were no
history: it accepted them first more than `ASKED_NS` after it was asked, or more than `GRACE_NS` after an app or client
of the router was in the group and connected, and a service of the router too. The pub/sub service asks for ids that the
other one says it holds, and counts as history what that one took before the group was wanted; it enters a group when it
hears that it is, of which the router tells it again every 5 s. Both logs are whole, that of the other one from its
first event on, neither clock was set, and both bounds are known. `had`: when routers accepted such messages first
(`router`, `id`, `seq`, `t`); `apart`: as of `presence_sql.JOINED_THERE`."""
