"""Claims about who was in a group and connected, of those that both engines find by one SQL text (`claim_sql`, which
says what the texts read)."""

from __future__ import annotations

import re

from spark_analytics.judgement.refusal_sql import NOT_KEPT

HISTORY = "history_asked"
"""The event of messages that the pub/sub service asked another router for as history: their `ids` are in `change`."""
DROPPED = "queue_dropped"
"""The event of a queue that the operator had dropped, of the recipient `peer`."""
NS_MAX = (1 << 63) - 1
PARTS, PART_MIN = 512, 4096
"""Into how many parts a log is cut, and the fewest events in one: a line is compared with who was there in its part."""

_IS_COUNTED = "event = 'leave' AND subscriber IS NULL AND coalesce(standing, '') <> 'stranger'"
_STAY = f"""
line AS (
    SELECT change.*,
        sum(CASE WHEN event = 'start' THEN 1 ELSE 0 END)
            OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run,
        max(CASE WHEN event = 'start' THEN seq ELSE 0 END)
            OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run_seq,
        max(CASE WHEN event = 'start' THEN t ELSE 0 END)
            OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run_t,
        {_IS_COUNTED} AS is_counted
    FROM {{change}} change
),
told AS (
    SELECT line.router, min(CASE WHEN clock_moves_s_max IS NOT NULL THEN seq END) AS told_seq,
        CASE WHEN bool_or(is_unbroken) THEN max(end_ns) ELSE max(CASE WHEN seq < hole_seq THEN t END) END AS end_t
    FROM line JOIN {{log}} log ON log.router = line.router
    GROUP BY line.router
),
doubtful AS (
    SELECT router, CASE WHEN event = 'renewal' THEN old_key ELSE peer END AS peer, min(seq) AS seq, min(t) AS t
    FROM line
    WHERE event = 'renewal' OR event = 'config' AND is_doubtful
    GROUP BY router, CASE WHEN event = 'renewal' THEN old_key ELSE peer END
),
service AS (
    SELECT DISTINCT router, subscriber FROM line WHERE event = 'join' AND service IS NOT NULL
),
history_told AS (
    SELECT router, min(seq) AS seq FROM line WHERE history_open_max IS NOT NULL AND run > 0 GROUP BY router
),
membership AS (
    SELECT router, subscriber, group_key, event, service, seq, t,
        lead(seq) OVER (PARTITION BY router, subscriber, group_key ORDER BY seq) AS to_seq,
        lead(t) OVER (PARTITION BY router, subscriber, group_key ORDER BY seq) AS to_t, sure_seq, sure_t
    FROM (
        SELECT line.*,
            min(CASE WHEN is_counted THEN run_seq END)
                OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS sure_seq,
            min(CASE WHEN is_counted THEN run_t END)
                OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS sure_t
        FROM line
    ) line
    WHERE event IN ('join', 'leave') AND subscriber IS NOT NULL AND group_key IS NOT NULL
),
presence AS (
    SELECT router, run, peer, event, standing, seq, t,
        lead(seq) OVER (PARTITION BY router, run, peer, link ORDER BY seq) AS to_seq,
        lead(t) OVER (PARTITION BY router, run, peer, link ORDER BY seq) AS to_t
    FROM line
    WHERE event IN ('link_up', 'link_down') AND peer IS NOT NULL
),
stopped AS (
    SELECT router, run - 1 AS run, seq, t FROM line WHERE event = 'start'
),
stay AS (
    SELECT membership.router, membership.subscriber, membership.group_key, membership.seq AS joined_seq,
        greatest(membership.seq, presence.seq) AS from_seq,
        greatest(membership.t, presence.t) AS from_t,
        least(
            coalesce(membership.to_seq, {NS_MAX}), coalesce(presence.to_seq, {NS_MAX}), coalesce(stopped.seq, {NS_MAX}),
            coalesce(doubtful.seq, {NS_MAX}), coalesce(sure_seq, {NS_MAX}), log.hole_seq
        ) AS to_seq,
        least(
            coalesce(membership.to_t, {NS_MAX}), coalesce(presence.to_t, {NS_MAX}), coalesce(stopped.t, {NS_MAX}),
            coalesce(doubtful.t, {NS_MAX}), coalesce(sure_t, {NS_MAX}), end_t
        ) AS to_t
    FROM membership
    JOIN told ON told.router = membership.router
    JOIN presence ON presence.router = membership.router AND presence.peer = membership.subscriber
        AND presence.seq < coalesce(membership.to_seq, {NS_MAX})
        AND membership.seq < coalesce(presence.to_seq, {NS_MAX})
    JOIN {{log}} log ON log.router = membership.router
    LEFT JOIN stopped ON stopped.router = presence.router AND stopped.run = presence.run
    LEFT JOIN doubtful ON doubtful.router = membership.router AND doubtful.peer = membership.subscriber
    WHERE membership.event = 'join' AND membership.service IS NULL AND membership.seq > told_seq
        AND presence.event = 'link_up'
        AND (presence.standing = 'local' OR presence.standing = 'client' AND log.pruned_to = 0)
),
marked AS (
    SELECT router, min(seq) AS seq FROM line WHERE groups_per_client_max IS NOT NULL GROUP BY router
),
unmarked AS (
    SELECT line.router, min(line.seq) AS seq
    FROM line JOIN marked ON marked.router = line.router AND marked.seq < line.seq
    WHERE clock_moves_s_max IS NOT NULL AND groups_per_client_max IS NULL
    GROUP BY line.router
),
named_link AS (
    SELECT router, run, peer, standing, min(seq) AS seq
    FROM line
    WHERE event = 'link_up' AND peer IS NOT NULL
    GROUP BY router, run, peer, standing
),
sighted AS (
    SELECT named_link.router, peer AS subscriber, min(named_link.seq) AS seq, {NS_MAX} AS to_seq
    FROM named_link JOIN {{log}} log ON log.router = named_link.router
    WHERE standing = 'local' AND NOT is_restored
    GROUP BY named_link.router, peer
    UNION ALL
    SELECT named_link.router, peer, named_link.seq, coalesce(stopped.seq, {NS_MAX})
    FROM named_link
    JOIN {{log}} log ON log.router = named_link.router
    LEFT JOIN stopped ON stopped.router = named_link.router AND stopped.run = named_link.run
    WHERE standing = 'local' AND is_restored OR standing = 'client' AND pruned_to = 0
    UNION ALL
    SELECT joined.router, joined.subscriber, min(joined.seq),
        least(min(coalesce(linked.seq, {NS_MAX})), min(coalesce(stopped.seq, {NS_MAX})))
    FROM line joined
    JOIN {{log}} log ON log.router = joined.router
    LEFT JOIN named_link linked
        ON linked.router = joined.router AND linked.run = joined.run AND linked.peer = joined.subscriber
    LEFT JOIN stopped ON stopped.router = joined.router AND stopped.run = joined.run
    LEFT JOIN (SELECT DISTINCT router, run FROM line WHERE event = 'link_up' AND peer IS NULL) unnamed
        ON unnamed.router = joined.router AND unnamed.run = joined.run
    LEFT JOIN (SELECT DISTINCT router FROM line WHERE event = 'renewal') renewed ON renewed.router = joined.router
    WHERE joined.event = 'join' AND joined.run > 0 AND joined.subscriber <> log.key
        AND unnamed.router IS NULL AND renewed.router IS NULL
    GROUP BY joined.router, joined.run, joined.subscriber
    HAVING min(joined.seq) < min(coalesce(linked.seq, {NS_MAX}))
),
member AS (
    SELECT membership.router, membership.subscriber, membership.group_key, membership.seq AS joined_seq,
        greatest(membership.seq, sighted.seq) AS from_seq,
        least(
            coalesce(membership.to_seq, {NS_MAX}), sighted.to_seq, coalesce(doubtful.seq, {NS_MAX}),
            coalesce(unmarked.seq, {NS_MAX}), log.hole_seq
        ) AS to_seq
    FROM membership
    JOIN marked ON marked.router = membership.router AND marked.seq < membership.seq
    JOIN sighted ON sighted.router = membership.router AND sighted.subscriber = membership.subscriber
        AND sighted.seq < coalesce(membership.to_seq, {NS_MAX}) AND membership.seq < sighted.to_seq
    JOIN {{log}} log ON log.router = membership.router
    LEFT JOIN unmarked ON unmarked.router = membership.router
    LEFT JOIN doubtful ON doubtful.router = membership.router AND doubtful.peer = membership.subscriber
    WHERE membership.event = 'join' AND membership.service IS NULL
)"""
"""When apps and clients were in a group and connected, by a log up to its first hole: from the later of `join` and
`link_up` to the first of `leave`, `link_down`, the next start, and the line by which the key's rights are changed, it
becomes an uplink or is renewed. After a hole nobody is judged: a join, a leave or a request for history may be in it.
Leaves that are only counted, but for strangers', may be of anybody who had joined, and of any time since the start of
that run; clients are judged only by a log that begins with its first event, which tells of uplinks. Services are left
out: to some the router says the ids alone. A log names them from the first `config` on that has `clock_moves_s_max`.
`UNJUDGED` tells what is not judged by this.

`member`: when they were in a group, connected or not: while one that keeps a queue is away it is owed messages, and any
other one is named as *not-kept*. Judged from the first `config` on that has `groups_per_client_max`, up to one that has
the other limits and not this: such a log names the leave of whoever it names as joined, whatever leaves it counts. An
app, whose subscriptions outlive a start or are ended by a `leave` after it, is judged from its first link on; in a log
that goes on from a snapshot, and if it is a client, whose rights a start may change without a line, within the run of a
link. One of which no link is told is judged from its `join` up to its first link, within the run: a link has its name
in the log before, or is counted. Whoever declines a group is logged to join it by the router's own key."""

STAYS = f"WITH {_STAY},"
"""How the texts begin that ask when somebody was in a group and connected."""


def stay_steps() -> list[tuple[str, str]]:
    """Return the steps of `STAYS` in order, each with its name and its text, which reads those before it by name."""
    _, *found = re.split(r"^(\w+) AS \(\n", _STAY, flags=re.MULTILINE)
    return [(name, text.rstrip(",\n").removesuffix(")")) for name, text in zip(found[::2], found[1::2], strict=True)]


UNJUDGED = f"""
WITH {_STAY},
joined AS (
    SELECT membership.router, membership.subscriber, min(membership.seq) AS seq
    FROM membership
    WHERE event = 'join' AND service IS NULL
    GROUP BY membership.router, membership.subscriber
)
SELECT joined.router, 'config' AS cause, CAST(NULL AS STRING) AS peer, min(told_seq) AS seq
FROM joined JOIN told ON told.router = joined.router
WHERE told_seq IS NULL OR joined.seq <= told_seq
GROUP BY joined.router
UNION ALL
SELECT joined.router, 'history', CAST(NULL AS STRING), min(history_told.seq)
FROM joined
JOIN told ON told.router = joined.router AND told_seq IS NOT NULL
JOIN (SELECT DISTINCT router FROM service) serving ON serving.router = joined.router
LEFT JOIN history_told ON history_told.router = joined.router
GROUP BY joined.router
HAVING min(history_told.seq) IS NULL OR min(history_told.seq) > min(told_seq)
UNION ALL
SELECT joined.router, 'away', CAST(NULL AS STRING), min(marked.seq)
FROM joined
JOIN told ON told.router = joined.router AND told_seq IS NOT NULL
LEFT JOIN marked ON marked.router = joined.router
WHERE marked.seq IS NULL OR joined.seq <= marked.seq
GROUP BY joined.router
UNION ALL
SELECT router, 'unmarked', CAST(NULL AS STRING), seq FROM unmarked
UNION ALL
SELECT log.router, CASE WHEN is_unbroken THEN 'end' ELSE 'hole' END, CAST(NULL AS STRING), log.hole_seq
FROM {{log}} log
JOIN (SELECT DISTINCT router FROM {{change}} WHERE event = 'join') joining ON joining.router = log.router
WHERE log.hole_seq < {NS_MAX}
UNION ALL
SELECT router, 'asked', CAST(NULL AS STRING), min(seq) FROM line WHERE event = '{HISTORY}' GROUP BY router
UNION ALL
SELECT joined.router, 'leave', CAST(NULL AS STRING), min(line.seq)
FROM joined
JOIN told ON told.router = joined.router
JOIN line ON line.router = joined.router AND line.is_counted AND line.seq > joined.seq
LEFT JOIN marked ON marked.router = joined.router
LEFT JOIN unmarked ON unmarked.router = joined.router
WHERE marked.seq IS NULL OR joined.seq <= marked.seq OR unmarked.seq < line.seq
GROUP BY joined.router
UNION ALL
SELECT joined.router, 'rights', joined.subscriber, doubtful.seq
FROM joined
JOIN told ON told.router = joined.router
JOIN doubtful ON doubtful.router = joined.router AND doubtful.peer = joined.subscriber
"""
"""Where logs do not show who was left out: `router`, `cause`, `peer`, `seq`. `hole`: from its first hole on; `end`: the
same, and that hole lies behind its last event; `asked`: what was asked for as history, first in `seq`; `config`: before
the first `config` that has `clock_moves_s_max`, in `seq`, or anywhere; `history`: before the first that has
`history_open_max`, of what another router brought and a service alone was given; `away`: before the first that has
`groups_per_client_max`, while they are away, and `unmarked`: from one on that lacks it; `leave`: some leaves are only
counted, first in `seq`, of those who may have joined before that or behind `unmarked`; `rights`: those of `peer`
changed in `seq`, or it was renewed there."""


def _cut(lines: str, whose: str = "") -> str:
    """Return the steps that cut these lines (`placed`), and who was there (`cut`; `is_member`: of `member`), into parts
    of a log. `whose`: a join that leaves rows of `owing` out."""
    return f"""
width AS (
    SELECT router, min(seq) AS first_seq, max(seq) AS last_seq,
        greatest({PART_MIN}, CAST(max(seq) AS DOUBLE) / {PARTS}) AS size
    FROM {lines} lines
    GROUP BY router
),
placed AS (
    SELECT lines.*, CAST(floor(seq / size) AS BIGINT) AS part
    FROM {lines} lines JOIN width ON width.router = lines.router
),
owing AS (
    SELECT router, subscriber, group_key, joined_seq, from_seq, to_seq, FALSE AS is_member FROM stay
    UNION ALL
    SELECT router, subscriber, group_key, joined_seq, from_seq, to_seq, TRUE FROM member
),
cut AS (
    SELECT owing.router, subscriber, group_key, joined_seq, from_seq, to_seq, is_member,
        explode(sequence(
            CAST(floor(greatest(from_seq, first_seq) / size) AS BIGINT),
            CAST(floor(least(to_seq, last_seq) / size) AS BIGINT)
        )) AS part
    FROM owing JOIN width ON width.router = owing.router {whose}
    WHERE from_seq < least(to_seq, last_seq) AND first_seq < to_seq
)"""


LACKING = f"""
WITH {_STAY},
{_cut("{sent}")},
inside AS (
    SELECT DISTINCT router, peer FROM presence WHERE event = 'link_up' AND standing = 'local'
),
met AS (
    SELECT router, peer, min(seq) AS seq FROM line WHERE event = 'link_up' GROUP BY router, peer
    UNION ALL
    SELECT router, old_key, seq FROM line WHERE event = 'renewal'
    UNION ALL
    SELECT router, new_key, seq FROM line WHERE event = 'renewal'
),
named AS (
    SELECT line.router, line.seq, ids, explode(sequence(0, CAST(length(ids) / 64 AS BIGINT) - 1)) AS i
    FROM line
    JOIN {{log}} log ON log.router = line.router
    LEFT JOIN met ON met.router = line.router AND met.peer = asked_key AND met.seq < line.seq
    LEFT JOIN (SELECT router, seq FROM met WHERE peer IS NULL) counted
        ON counted.router = line.router AND counted.seq < line.seq
    WHERE line.event = '{HISTORY}'
        AND (met.seq IS NOT NULL OR counted.seq IS NOT NULL OR asked_key IS NULL OR log.pruned_to > 0)
),
wanted AS (
    SELECT router, substr(ids, 64 * i + 1, 64) AS id, min(seq) AS seq
    FROM named
    GROUP BY router, substr(ids, 64 * i + 1, 64)
),
lone AS (
    SELECT sent.router, sent.seq, n, alone_ids, explode(sequence(0, CAST(n AS BIGINT) - 1)) AS i
    FROM {{sent}} sent
    JOIN service ON service.router = sent.router AND service.subscriber = sent.alone
),
history AS (
    SELECT lone.router, lone.seq
    FROM lone
    JOIN wanted ON wanted.router = lone.router AND wanted.id = substr(alone_ids, 64 * i + 1, 64)
    WHERE wanted.seq < lone.seq
    GROUP BY lone.router, lone.seq
    HAVING count(*) = max(n)
)
SELECT {{hint}} placed.router, cut.subscriber, placed.seq, placed.n, max(joined_seq) AS joined_seq
FROM placed
JOIN cut ON cut.router = placed.router AND cut.group_key = placed.group_key AND cut.part = placed.part
LEFT JOIN service ON service.router = placed.router AND service.subscriber = placed.alone
LEFT JOIN inside ON inside.router = placed.router AND inside.peer = placed.peer
LEFT JOIN history_told ON history_told.router = placed.router AND history_told.seq < placed.seq
LEFT JOIN history ON history.router = placed.router AND history.seq = placed.seq
WHERE placed.seq > from_seq AND placed.seq < to_seq AND cut.subscriber <> placed.peer
    AND (service.subscriber IS NULL OR inside.peer IS NOT NULL OR history_told.seq IS NOT NULL AND history.seq IS NULL)
    AND NOT array_contains(placed.recipients, cut.subscriber)
GROUP BY placed.router, cut.subscriber, placed.seq, placed.n
"""
"""Multicasts that were not owed to an app or client that was in the group and connected, or was in the group of a
router whose log names who leaves (`member` of `_STAY`), line by line. `sent`: accepted
multicasts (`router`, `seq`, `n`, `group_key`, `peer`, `recipients`; `alone`: the recipient if there is one only, and
`alone_ids` the ids then, as hex, to leave aside what is asked for as history, which the pub/sub service alone is given:
by another router, never by an app of this one; and where a `config` of a run that the log holds from its start on has
`history_open_max`, only if all of the line was asked for before it, of routers that had a link before: one that the log
names, or one that it only counts, or before its first event that is kept)."""

LEFT_OUT = f"""
SELECT router, subscriber AS peer, CAST(sum(n) AS BIGINT) AS count, min(seq) AS seq,
    min_by(joined_seq, seq) AS accepted_seq
FROM ({LACKING}) lacking
GROUP BY router, subscriber
"""
"""The lines of `LACKING`, added up."""

SEEN = "(taker.is_whole OR taker.is_unbroken AND marked.seq IS NOT NULL)"
"""SQL for whether the log of `taker` tells when a stay ended: it is whole, or up to its last event and names leaves."""

_WHOSE_DROPPED = """JOIN (SELECT DISTINCT router, recipient FROM {dropped} dropped) gone
        ON gone.router = owing.router AND gone.recipient = subscriber"""
PRESENT = f"""
WITH {_STAY},
{_cut("{dropped}", _WHOSE_DROPPED)},
away AS (
    SELECT router, peer, seq, is_asked,
        max(cleared_seq)
            OVER (PARTITION BY router, peer ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS clear_seq,
        max(CASE WHEN peer IS NULL THEN ended_seq END)
            OVER (PARTITION BY router ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS start_seq,
        max(ended_seq)
            OVER (PARTITION BY router, peer ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS down_seq
    FROM (
        SELECT DISTINCT router, recipient AS peer, seq, CAST(NULL AS BIGINT) AS ended_seq,
            CAST(NULL AS BIGINT) AS cleared_seq, TRUE AS is_asked
        FROM {{dropped}} dropped
        UNION ALL
        SELECT router, CASE WHEN event <> 'start' THEN peer END, seq, CASE WHEN event <> '{DROPPED}' THEN seq END,
            CASE WHEN event = '{DROPPED}' THEN seq END, FALSE
        FROM line
        WHERE event = 'start' OR event IN ('link_down', '{DROPPED}') AND peer IS NOT NULL
    ) told
),
held AS (
    SELECT placed.router, parcel, recipient, placed.seq, placed.count, group_key, joined_seq, clear_seq,
        CASE WHEN is_member THEN greatest(from_seq, coalesce(start_seq, 0), coalesce(down_seq, 0)) ELSE from_seq
        END AS from_seq
    FROM placed
    JOIN cut ON cut.router = placed.router AND cut.subscriber = recipient AND cut.part = placed.part
    JOIN away ON away.router = placed.router AND away.peer = recipient AND away.seq = placed.seq AND is_asked
    WHERE from_seq < placed.seq AND placed.seq < to_seq
)
SELECT held.router, parcel, recipient, held.seq, held.count, group_key, min(joined_seq) AS joined_seq,
    greatest(min(from_seq), max(history_told.seq), max(coalesce(clear_seq, 0))) AS from_seq
FROM held
JOIN history_told ON history_told.router = held.router
GROUP BY held.router, parcel, recipient, held.seq, held.count, group_key
"""
"""Lines of messages dropped because the recipient had left, which was in a group and connected then, or in the group
alone (`member` of `_STAY`): with `from_seq`, since when it was and its queue was not dropped by the operator; of one
that may be away also since its last link went down and the last start, at which queues end of whoever may have none.
Judged where a `config` has `history_open_max`: such logs tell of the operator's orders. `dropped`: these lines
(`router`, `parcel`, `recipient`, `seq`, `count`)."""

NOT_LEFT = f"""
SELECT dropped.router, recipient AS peer, CAST(sum(count) AS BIGINT) AS count, min(dropped.seq) AS seq,
    min_by(joined_seq, dropped.seq) AS accepted_seq
FROM ({PRESENT}) dropped
JOIN {{owed_line}} owed ON owed.router = dropped.router AND owed.parcel = dropped.parcel
    AND owed.group_key = dropped.group_key
WHERE owed.seq > from_seq
GROUP BY dropped.router, recipient
"""
"""Multicasts dropped because the recipient had left, which was in the group from before their acceptance until then,
and connected, or of a router whose log names who leaves. `owed_line`: accepted multicasts (`router`, `parcel`, `seq`,
`group_key`)."""

JOINED_THERE = f"""
WITH {_STAY},
steady AS (
    SELECT router FROM {{log}} log WHERE router NOT IN (SELECT router FROM {{change}} WHERE event = 'clock_step')
),
found AS (
    SELECT refused.router, taker.key AS peer, refused.seq, refused.count, max(joined_seq) AS joined_seq
    FROM {{refused}} refused
    JOIN {{apart}} apart ON apart.router = refused.router AND apart.taker = refused.taker
    JOIN {{log}} log ON log.router = refused.router
    JOIN {{log}} taker ON taker.router = refused.taker
    JOIN steady ON steady.router = refused.router
    JOIN steady there ON there.router = refused.taker
    JOIN stay ON stay.router = refused.taker AND stay.group_key = refused.group_key
    LEFT JOIN marked ON marked.router = refused.taker AND marked.seq < joined_seq
    WHERE {SEEN} AND lower_ns <= upper_ns AND stay.subscriber <> log.key
        AND from_t < accepted_t + lower_ns AND to_t > refused_t + upper_ns
    GROUP BY refused.router, taker.key, refused.seq, refused.count
)
SELECT router, peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq, min_by(joined_seq, seq) AS accepted_seq
FROM found
GROUP BY router, peer
"""
"""Multicasts that a neighbour is said to have refused as *no-subscribers*, although by its own log an app or client of
it was in the group and connected all the while, up to its last event at most. In a hole before that a clock may have
been set: such logs are not judged. Nor are those without their end, where leaves may only be counted (`marked`).
`refused`: such refusals (`router`, `taker`, `seq`, `count`, `group_key`, `accepted_t`, `refused_t`, by the clock of
`router`); `apart`: bounds of the taker's clock minus the router's (`router`, `taker`, `lower_ns`, `upper_ns`)."""

NOT_AWAY = f"""
WITH {_STAY},
found AS (
    SELECT declined.router, recipient, declined.seq, declined.count, max(joined_seq) AS joined_seq
    FROM {{declined}} declined
    JOIN stay ON stay.router = declined.router AND stay.subscriber = recipient
        AND stay.group_key = declined.group_key
    WHERE reason = '{NOT_KEPT}' AND is_at_once AND declined.seq > from_seq AND declined.seq < to_seq
    GROUP BY declined.router, recipient, declined.seq, declined.count
)
SELECT router, recipient AS peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq,
    min_by(joined_seq, seq) AS accepted_seq
FROM found
GROUP BY router, recipient
"""
"""Multicasts of which nothing is said to be kept for an app or client, as it was away, although by the log it was
connected. `declined`: see `refusal_sql`."""
