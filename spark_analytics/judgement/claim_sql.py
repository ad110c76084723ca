"""Claims of routers that both engines find by one SQL text, from small tables that each engine makes for itself.

A name in braces is the name of such a table. Each text is read by Spark SQL and by DuckDB. Routers are numbers of the
audit, other keys hex, times nanoseconds. A text returns, by `router` and `peer`: the `count` of messages, `seq` of the
first line that says so, and `accepted_seq` of the line that contradicts it. `change`: the lines of `CHANGES`; `log`:
the logs (`router`, `key`, `is_whole`, `pruned_to`, `start_ns`, `end_ns`).
"""

from __future__ import annotations

import re

from spark_analytics.judgement import refusal_sql
from spark_analytics.judgement.refusal_sql import NOT_KEPT
from spark_analytics.judgement.schema import GRACE_NS

CHANGES = ("start", "config", "link_up", "link_down", "join", "leave", "clock_step", "renewal")
"""The events of `change`: `router`, `seq`, `t`, `mono`, `boot`, `event`, and the fields named below."""
FIELDS = {
    "peer": "peer", "standing": "standing", "group": "group_key", "subscriber": "subscriber", "service": "service",
    "old": "old_key", "new": "new_key",
}  # fmt: skip
"""Fields of these lines, which are text, and the columns of `change` that hold them."""
NUMBERS = ("link", "clock_moves_s_max")
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
NS_MAX = (1 << 63) - 1
UNBORNE_MIN = 100
"""The fewest messages by which what was turned away must exceed what was handed over: routers also say things to each
other that no line tells of."""
HINT = "/*+ BROADCAST(cut) */"
"""For `{hint}`: lines are many, and those who join are few; a comment for DuckDB."""
PARTS, PART_MIN = 512, 4096
"""Into how many parts a log is cut, and the fewest events in one: a line is compared with who was there in its part."""
NEVER_AGAIN = ("malformed", "bad-signature", "no-subscribers", "no-route", "blocked")
"""Reasons for which no router refuses a message that it has accepted: it knows its id, and says that it has it. For any
other a neighbour may, or the router itself decides so: for its own queues and lengths, for rights, which are looked at
before the index on disk, and for an expiry too far ahead from a neighbour that became a stranger. What is refused for
now ends no message (`impossible_ends`)."""

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
    SELECT line.router, min(CASE WHEN clock_moves_s_max IS NOT NULL THEN seq END) AS told_seq
    FROM line JOIN {{log}} log ON log.router = line.router
    WHERE log.is_whole
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
            coalesce(doubtful.seq, {NS_MAX}), coalesce(sure_seq, {NS_MAX})
        ) AS to_seq,
        least(
            coalesce(membership.to_t, {NS_MAX}), coalesce(presence.to_t, {NS_MAX}), coalesce(stopped.t, {NS_MAX}),
            coalesce(doubtful.t, {NS_MAX}), coalesce(sure_t, {NS_MAX}), log.end_ns
        ) AS to_t
    FROM membership
    JOIN told ON told.router = membership.router
    JOIN presence ON presence.router = membership.router AND presence.peer = membership.subscriber
    JOIN {{log}} log ON log.router = membership.router
    LEFT JOIN stopped ON stopped.router = presence.router AND stopped.run = presence.run
    LEFT JOIN doubtful ON doubtful.router = membership.router AND doubtful.peer = membership.subscriber
    WHERE membership.event = 'join' AND membership.service IS NULL AND membership.seq > told_seq
        AND presence.event = 'link_up'
        AND (presence.standing = 'local' OR presence.standing = 'client' AND log.pruned_to = 0)
)"""
"""When apps and clients were in a group and connected, by a log that is whole: from the later of `join` and `link_up`
to the first of `leave`, `link_down`, the next start, and the line by which the key's rights are changed, it becomes an
uplink or is renewed. Leaves that are only counted, but for strangers', may be of anybody who had joined, and of any
time since the start of that run; clients are judged only by a log that begins with its first event, which tells of
uplinks. Services are left out: to some the router says the ids alone. A log names them from the first `config` on that
has `clock_moves_s_max`. `UNJUDGED` tells what is not judged by this."""

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
SELECT joined.router, 'leave', CAST(NULL AS STRING), min(line.seq)
FROM joined
JOIN told ON told.router = joined.router
JOIN line ON line.router = joined.router AND line.is_counted AND line.seq > joined.seq
GROUP BY joined.router
UNION ALL
SELECT joined.router, 'rights', joined.subscriber, doubtful.seq
FROM joined
JOIN told ON told.router = joined.router
JOIN doubtful ON doubtful.router = joined.router AND doubtful.peer = joined.subscriber
"""
"""Where logs, though whole, do not show who was left out: `router`, `cause`, `peer`, `seq`. `config`: before the first
`config` that has `clock_moves_s_max`, in `seq`, or anywhere; `leave`: some leaves are only counted, first in `seq`;
`rights`: those of `peer` changed in `seq`, or it was renewed there."""

LACKING = f"""
WITH {_STAY},
width AS (
    SELECT router, min(seq) AS first_seq, max(seq) AS last_seq,
        greatest({PART_MIN}, CAST(max(seq) AS DOUBLE) / {PARTS}) AS size
    FROM {{sent}}
    GROUP BY router
),
cut AS (
    SELECT stay.router, subscriber, group_key, joined_seq, from_seq, to_seq,
        explode(sequence(
            CAST(floor(greatest(from_seq, first_seq) / size) AS BIGINT),
            CAST(floor(least(to_seq, last_seq) / size) AS BIGINT)
        )) AS part
    FROM stay JOIN width ON width.router = stay.router
    WHERE from_seq < least(to_seq, last_seq) AND first_seq < to_seq
),
inside AS (
    SELECT DISTINCT router, peer FROM presence WHERE event = 'link_up' AND standing = 'local'
),
placed AS (
    SELECT sent.*, CAST(floor(seq / size) AS BIGINT) AS part FROM {{sent}} sent JOIN width ON width.router = sent.router
)
SELECT {{hint}} placed.router, cut.subscriber, placed.seq, placed.n, max(joined_seq) AS joined_seq
FROM placed
JOIN cut ON cut.router = placed.router AND cut.group_key = placed.group_key AND cut.part = placed.part
LEFT JOIN service ON service.router = placed.router AND service.subscriber = placed.alone
LEFT JOIN inside ON inside.router = placed.router AND inside.peer = placed.peer
WHERE placed.seq > from_seq AND placed.seq < to_seq AND cut.subscriber <> placed.peer
    AND (service.subscriber IS NULL OR inside.peer IS NOT NULL)
    AND NOT array_contains(placed.recipients, cut.subscriber)
GROUP BY placed.router, cut.subscriber, placed.seq, placed.n
"""
"""Multicasts that were not owed to an app or client that was in the group and connected, line by line. `sent`: accepted
multicasts (`router`, `seq`, `n`, `group_key`, `peer`, `recipients`; `alone`: the recipient if there is one only, to
leave aside what is asked for as history, which the pub/sub service alone is given: by another router, never by an app
of this one)."""

LEFT_OUT = f"""
SELECT router, subscriber AS peer, CAST(sum(n) AS BIGINT) AS count, min(seq) AS seq,
    min_by(joined_seq, seq) AS accepted_seq
FROM ({LACKING}) lacking
GROUP BY router, subscriber
"""
"""The lines of `LACKING`, added up."""

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
    WHERE lower_ns <= upper_ns AND stay.subscriber <> log.key
        AND from_t < accepted_t + lower_ns AND to_t > refused_t + upper_ns
    GROUP BY refused.router, taker.key, refused.seq, refused.count
)
SELECT router, peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq, min_by(joined_seq, seq) AS accepted_seq
FROM found
GROUP BY router, peer
"""
"""Multicasts that a neighbour is said to have refused as *no-subscribers*, although by its own log an app or client of
it was in the group and connected all the while. `refused`: such refusals (`router`, `taker`, `seq`, `count`,
`group_key`, `accepted_t`, `refused_t`, by the clock of `router`); `apart`: bounds of the taker's clock minus the
router's (`router`, `taker`, `lower_ns`, `upper_ns`)."""

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
excused AS (
    SELECT DISTINCT moved.router, moved.boot, moved.seq
    FROM moved JOIN step
        ON step.router = moved.router AND step.boot = moved.boot AND step.seq > moved.before_seq
    WHERE step.mono <= moved.mono + {LOOK_NS}
)
SELECT moved.router, log.key AS peer, CAST(count(*) AS BIGINT) AS count, min(moved.seq) AS seq,
    min_by(before_seq, moved.seq) AS accepted_seq
FROM moved
JOIN {{log}} log ON log.router = moved.router
LEFT JOIN excused ON excused.router = moved.router AND excused.boot = moved.boot AND excused.seq = moved.seq
WHERE excused.seq IS NULL
GROUP BY moved.router, log.key
"""
"""Jumps of the wall clock against the monotonic clock of one boot without a `clock_step`, by more than the router lets
pass (`clock_moves_s_max`, and a tenth of the time between both lines); in the last minute of a boot it may not have
looked any more. `timed`: the lines of boots in which the two differ by more than that (`router`, `boot`, `seq`, `t`,
`mono`)."""

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
JOIN (SELECT DISTINCT router FROM linked) telling ON telling.router = acked.router
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
of that run on, or from their first event on. A log that names no neighbour of any link is not judged. A key that was
followed by another is told of by its own name, and its links by the later one. `acked`: the links over which messages
were delivered or acknowledged (`router`, `boot`, `link`, `recipient`, `seq` and `last_seq` of the first line and the
last)."""
OFF_LINK = "(seq < coalesce(linked_seq, seq + 1) OR seq > coalesce(down_seq, seq))"
"""SQL for whether a line at `seq`, about a link that `UNLINKED` finds, tells of it while it was not up."""

NOT_HANDED = f"""
WITH said AS (
    SELECT turned.router, log.router AS other, turned.peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq
    FROM {{turned}} turned
    JOIN {{log}} log ON log.key = turned.peer
    WHERE log.is_whole AND log.pruned_to = 0 AND t <= log.end_ns - {GRACE_NS}
    GROUP BY turned.router, log.router, turned.peer
)
SELECT said.router, said.peer, said.count, seq, CAST(NULL AS BIGINT) AS accepted_seq
FROM said
JOIN {{log}} own ON own.router = said.router
LEFT JOIN {{handed}} handed ON handed.router = said.other AND handed.recipient = own.key
WHERE said.count >= coalesce(handed.count, 0) + {UNBORNE_MIN}
"""
"""More messages turned away from a neighbour than its whole log tells to have handed over, with repetitions. `turned`:
lines of messages turned away at the door (`router`, `peer`, `seq`, `t`, `count`); `handed`: messages written, and asked
for and sent (`router`, `recipient`, `count`)."""

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
    "joined-there": JOINED_THERE,
    "other-time": CLOCK,
    "time-back": BACK,
    "not-begun": NOT_BEGUN,
    "not-handed": NOT_HANDED,
    "not-away": NOT_AWAY,
    **refusal_sql.TEXTS,
}
"""The texts by claim."""
OF_LINES = ("left-out", "copied-by-nobody")
"""The claims about accepted lines, each named by the first message of its line."""
