"""Claims about two logs by the order of their lines, where their clocks tell nothing, as `claim_sql` finds others.

A line has its place in its own log whatever a clock shows, and what one router hands to another ties two logs together:
it accepted a message before the other one did, which had it from there; and that one accepted it before its
acknowledgement was heard. A transaction is on disk before anything that follows from it is said. So no line counts here
for what is later in its own transaction, only for what another one decides later: of lines of one time a router may
have heard in any order.

`tie`: event `seq` of `router` was before event `other_seq` of `other`, a line of the time `other_t`; `is_sent`: as
`router` handed over what `other` accepted, else as `other` had the acknowledgement. Of the pairs that `UNTIMED` finds.
"""

from __future__ import annotations

from spark_analytics.judgement.link_sql import OWNS
from spark_analytics.judgement.presence_sql import HISTORY, NS_MAX, SEEN, STAYS

UNTIMED = """
WITH stepped AS (
    SELECT DISTINCT router FROM {change} WHERE event = 'clock_step'
),
renewed AS (
    SELECT old_key AS key FROM {change} WHERE event = 'renewal'
    UNION
    SELECT new_key FROM {change} WHERE event = 'renewal'
),
sound AS (
    SELECT log.router, stepped.router IS NOT NULL AS is_stepped
    FROM {log} log
    LEFT JOIN renewed ON renewed.key = log.key
    LEFT JOIN stepped ON stepped.router = log.router
    WHERE is_unbroken AND NOT is_restored AND renewed.key IS NULL
)
SELECT apart.router, apart.taker AS other
FROM {apart} apart
JOIN sound here ON here.router = apart.router
JOIN sound there ON there.router = apart.taker
WHERE here.is_stepped OR there.is_stepped OR NOT coalesce(lower_ns <= coalesce(upper_ns, lower_ns), FALSE)
"""
"""Pairs of logs of which the clocks do not tell what was before what (`router`, `other`, either way): one of them was
set, or what they handed to each other contradicts itself. Neither log has a hole before its last event, neither router
was restored, and no key followed one of theirs."""


def known_steps(name: str, asked: str, which: str = "TRUE") -> str:
    """Return the steps that tell what was known: `name`, with each row of `asked` (`router`, `other`, `at_seq`, `at_t`)
    and `known_seq`, the latest event of `router` that was before the transaction of event `at_seq` of `other`, by the
    ties that are so. Without a time, a line before it in its transaction counts as well."""
    by_pair = "PARTITION BY router, other ORDER BY at_seq, is_asked, at_t NULLS LAST"
    return f"""
{name}_line AS (
    SELECT router, other, other_seq AS at_seq, other_t AS at_t, seq, FALSE AS is_asked FROM {{tie}} WHERE {which}
    UNION ALL
    SELECT DISTINCT router, other, at_seq, at_t, CAST(NULL AS BIGINT), TRUE FROM {asked}
),
{name}_begun AS (
    SELECT *, coalesce(at_t <> lag(at_t) OVER ({by_pair}), TRUE) AS is_begun,
        max(seq) OVER ({by_pair} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_seq
    FROM {name}_line
),
{name}_all AS (
    SELECT router, other, at_seq, is_asked, max(CASE WHEN is_begun THEN before_seq END) OVER (
        {by_pair} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS known_seq
    FROM {name}_begun
),
{name} AS (
    SELECT router, other, at_seq, known_seq FROM {name}_all WHERE is_asked AND known_seq IS NOT NULL
)"""


REFUSED_THERE = f"""
WITH said AS (
    SELECT gone.router, taker, gone.seq, gone.t, there_seq, id, is_alone,
        coalesce(min(CASE WHEN is_alone THEN begun.seq END), {NS_MAX}) AS begun_seq
    FROM {{gone}} gone
    LEFT JOIN (SELECT router, seq FROM {{change}} WHERE event = 'start') begun
        ON begun.router = gone.router AND begun.seq > gone.seq
    GROUP BY gone.router, taker, gone.seq, gone.t, there_seq, id, is_alone
),
judged AS (
    SELECT *, CASE WHEN is_alone THEN begun_seq ELSE seq END AS at_seq FROM said
),
asked AS (
    SELECT taker AS router, router AS other, at_seq, CASE WHEN NOT is_alone THEN t END AS at_t FROM judged
),{known_steps("known", "asked")},
found AS (
    SELECT judged.*, row_number() OVER (PARTITION BY judged.router, taker ORDER BY seq, id) AS place
    FROM judged
    JOIN known ON known.router = judged.taker AND known.other = judged.router AND known.at_seq = judged.at_seq
    JOIN {{log}} there ON there.router = taker
    LEFT JOIN (SELECT router, other, max(seq) AS heard_seq FROM {{tie}} GROUP BY router, other) heard
        ON heard.router = judged.router AND heard.other = taker
    WHERE known_seq >= there_seq AND (there.is_whole OR heard_seq > judged.seq)
)
SELECT found.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count,
    max(CASE WHEN place = 1 THEN seq END) AS seq, max(CASE WHEN place = 1 THEN there_seq END) AS accepted_seq,
    max(CASE WHEN place = 1 THEN id END) AS id
FROM found JOIN {{log}} log ON log.router = found.taker
GROUP BY found.router, log.key
"""
"""Messages that a neighbour is said to have refused, for a reason for which nobody refuses what it knows, although it
accepted them from the router. It may have done so after it had refused them, if they were sent to it once more, as it
pulled them, or came in a message to it: then only those that it had accepted before something of which the router heard
before the refusal. Of others (`is_alone`) the router must have heard of something later before its next start: what it
did last in a run may not be written. If the end of the neighbour's log is missing, the neighbour heard of something
after the refusal: it may have been restored in the missing part. `gone`: messages that ended so, of which the neighbour
had each first from the router (`router`, `taker`, `seq`, `t`, `there_seq`: where it accepted it, `id`, `is_alone`)."""

JOINED_THERE = f"""
{STAYS}
asked_before AS (
    SELECT taker AS router, router AS other, accepted_seq AS at_seq, CAST(NULL AS BIGINT) AS at_t FROM {{refused}}
),{known_steps("known_before", "asked_before")},
staying AS (
    SELECT DISTINCT refused.router, refused.taker, subscriber, stay.group_key, joined_seq, from_seq, to_seq
    FROM (SELECT DISTINCT router, taker, group_key FROM {{refused}}) refused
    JOIN stay ON stay.router = refused.taker AND stay.group_key = refused.group_key
),
asked_after AS (
    SELECT router, taker AS other, to_seq AS at_seq, CAST(NULL AS BIGINT) AS at_t FROM staying
),{known_steps("known_after", "asked_after")},
found AS (
    SELECT refused.router, taker.key AS peer, refused.seq, refused.count, max(joined_seq) AS joined_seq
    FROM {{refused}} refused
    JOIN known_before ON known_before.router = refused.taker AND known_before.other = refused.router
        AND known_before.at_seq = refused.accepted_seq
    JOIN staying ON staying.router = refused.router AND staying.taker = refused.taker
        AND staying.group_key = refused.group_key
    JOIN known_after ON known_after.router = refused.router AND known_after.other = refused.taker
        AND known_after.at_seq = staying.to_seq
    JOIN {{log}} log ON log.router = refused.router
    JOIN {{log}} taker ON taker.router = refused.taker
    LEFT JOIN marked ON marked.router = refused.taker AND marked.seq < joined_seq
    WHERE {SEEN} AND staying.subscriber <> log.key
        AND known_before.known_seq >= from_seq AND known_after.known_seq > refused.seq
    GROUP BY refused.router, taker.key, refused.seq, refused.count
)
SELECT router, peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq, min_by(joined_seq, seq) AS accepted_seq
FROM found
GROUP BY router, peer
"""
"""Multicasts that a neighbour is said to have refused as *no-subscribers*, although somebody there was in the group and
connected from before the router accepted them, as it knew, until after it had the refusal, as the neighbour knew.
`refused`: as of `presence_sql.JOINED_THERE`, with `accepted_seq`."""

LINKED_THERE = f"""
{OWNS}
odd AS (
    SELECT router FROM {{change}} WHERE event = 'link_up' AND peer IS NULL
),
named AS (
    SELECT router, key FROM {{log}} log WHERE router NOT IN (SELECT router FROM odd)
),
tied AS (
    SELECT router, other FROM {{tie}} tie
    UNION
    SELECT other, router FROM {{tie}} tie
),
pair AS (
    SELECT own.router, there.router AS other, seq, event, up, last_event, last_seq, last_t
    FROM own
    JOIN named here ON here.router = own.router
    JOIN named there ON there.key = own.peer
    JOIN tied ON tied.router = own.router AND tied.other = there.router
),
gap AS (
    SELECT router, other, event, up, seq,
        coalesce(lead(seq) OVER (PARTITION BY router, other ORDER BY seq), {NS_MAX}) AS to_seq
    FROM pair
    WHERE event <> 'pong'
),
heard AS (
    SELECT router, other, seq, last_seq, last_t FROM pair WHERE event = 'pong' AND last_event = 'pong'
),
asked AS (
    SELECT other AS router, router AS other, last_seq AS at_seq, last_t AS at_t FROM heard
),{known_steps("known", "asked", "is_sent")},
asked_until AS (
    SELECT other AS router, router AS other, to_seq AS at_seq, CAST(NULL AS BIGINT) AS at_t
    FROM gap
    WHERE event = 'link_down' AND up <= 0
),{known_steps("known_until", "asked_until")},
placed AS (
    SELECT router, other, heard_seq, known_seq, max(gap_seq) OVER (
        PARTITION BY router, other ORDER BY known_seq RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS gap_seq
    FROM (
        SELECT known.router, known.other, heard.seq AS heard_seq, known_seq, CAST(NULL AS BIGINT) AS gap_seq
        FROM heard
        JOIN known ON known.router = heard.other AND known.other = heard.router AND known.at_seq = heard.last_seq
        UNION ALL
        SELECT router, other, CAST(NULL AS BIGINT), seq + 1, seq FROM gap WHERE event = 'link_down' AND up <= 0
    ) moments
),
found AS (
    SELECT gap.router, gap.other, heard_seq, gap.seq
    FROM placed
    JOIN gap ON gap.router = placed.router AND gap.other = placed.other AND gap.seq = placed.gap_seq
    JOIN known_until ON known_until.router = gap.other AND known_until.other = gap.router
        AND known_until.at_seq = gap.to_seq
    WHERE placed.known_seq < gap.to_seq AND known_until.known_seq >= heard_seq
)
SELECT found.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count, min(seq) AS seq,
    min(heard_seq) AS accepted_seq
FROM found JOIN {{log}} log ON log.router = found.other
GROUP BY found.router, log.key
"""
"""Answers that a neighbour had from a router between a message that the router accepted and handed to it and one that
it accepted itself, which the router took, or acknowledged, while by the router's log no link with it was up: what is
accepted after a link ended is handed over when the next one is up, and what the router has had since then it tells of
later than of that link."""

NO_HISTORY = f"""
WITH asking AS (
    SELECT change.router, change.seq, log.router AS taker, ids
    FROM {{change}} change
    JOIN {{log}} log ON log.key = asked_key
    JOIN {{log}} own ON own.router = change.router
    WHERE event = '{HISTORY}' AND log.pruned_to = 0 AND log.is_whole AND own.is_whole
),
named AS (
    SELECT asking.*, explode(sequence(0, CAST(length(ids) / 64 AS BIGINT) - 1)) AS i FROM asking
),
wanted AS (
    SELECT DISTINCT named.router, named.taker, named.seq, had.id, had.seq AS had_seq
    FROM named JOIN {{had}} had ON had.router = named.taker AND had.id = substr(named.ids, 64 * i + 1, 64)
),
asked AS (
    SELECT router, taker AS other, had_seq AS at_seq, CAST(NULL AS BIGINT) AS at_t FROM wanted
),{known_steps("known", "asked")},
found AS (
    SELECT wanted.*, row_number() OVER (PARTITION BY wanted.router, taker ORDER BY seq, had_seq, id) AS place
    FROM wanted
    JOIN known ON known.router = wanted.router AND known.other = wanted.taker AND known.at_seq = had_seq
    WHERE known_seq > wanted.seq
)
SELECT found.router, log.key AS peer, CAST(count(DISTINCT found.id) AS BIGINT) AS count,
    max(CASE WHEN place = 1 THEN seq END) AS seq, max(CASE WHEN place = 1 THEN had_seq END) AS accepted_seq,
    max(CASE WHEN place = 1 THEN found.id END) AS id
FROM found JOIN {{log}} log ON log.router = found.taker
GROUP BY found.router, log.key
"""
"""Messages that a router says that it asked another one for as history, which that one, whose log begins with its first
event, accepted first only after it had a message that the router accepted after it had asked. Both logs are whole: one
that a neighbour saw reach further may have begun anew. `had`: as of `history_sql.NO_HISTORY`."""

TEXTS = {
    "refused-there": REFUSED_THERE,
    "joined-there": JOINED_THERE,
    "linked-there": LINKED_THERE,
    "no-history": NO_HISTORY,
}
"""The texts by claim. Each returns an `id` besides."""
