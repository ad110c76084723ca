"""Claims about what routers turn away at their doors, of two logs, as `claim_sql` finds others.

`door`: lines of messages turned away at the door, whatever their time (`router`, `peer`: who brought them, null where
the line names nobody; `event`, `reason`, `seq`, `count`); `blamed`: lines of messages that a neighbour with a log here
is said to have refused, for a reason that the router does not find by itself (`router`, `taker`, `seq`, `t`, `count`);
`run`: the runs of routers (`router`, `boot`, and `start_t`, the time of the first line); `stop`: how those ended that
did not end by a crash (`router`, `boot`, `t`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_analytics.judgement.refusal_sql import OWN
from spark_analytics.judgement.schema import GRACE_NS

Row = Mapping[str, Any]

UNTURNED = "not-turned-away"
UNJOINED = "no-subscribers"
"""The reason of messages turned away of which both engines keep the ids that a line at a door names."""
UNBORNE_MIN = 100
"""The fewest messages by which what was turned away must exceed what was handed over, and what is said to have been
refused what was turned away: routers also say things to each other that no line tells of."""
NOT_BLAMED = (*OWN, "duplicate")
"""Reasons of refusals that need not be the neighbour's, and that of what it had already, which it does not refuse."""

NOT_HANDED = f"""
WITH said AS (
    SELECT turned.router, log.router AS other, turned.peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq
    FROM {{turned}} turned
    JOIN {{log}} log ON log.key = turned.peer
    LEFT JOIN {{apart}} apart ON apart.router = turned.router AND apart.taker = log.router
    WHERE log.is_whole AND log.pruned_to = 0 AND t + greatest(coalesce(upper_ns, 0), 0) <= log.end_ns - {GRACE_NS}
    GROUP BY turned.router, log.router, turned.peer
)
SELECT said.router, said.peer, said.count, seq, CAST(NULL AS BIGINT) AS accepted_seq
FROM said
JOIN {{log}} own ON own.router = said.router
LEFT JOIN {{handed}} handed ON handed.router = said.other AND handed.recipient = own.key
WHERE said.count >= coalesce(handed.count, 0) + {UNBORNE_MIN}
"""
"""More messages turned away from a neighbour than its whole log tells to have handed over, with repetitions. Its log
goes on for ten minutes after that, by its own clock and the bounds of both (`apart`). `turned`: lines of messages
turned away at the door (`router`, `peer`, `seq`, `t`, `count`); `handed`: messages written, and asked for and sent
(`router`, `recipient`, `count`)."""

NOT_TURNED_AWAY = f"""
WITH judged AS (
    SELECT router, key FROM {{log}} log
    WHERE is_unbroken AND pruned_to = 0
        AND router IN (SELECT router FROM {{change}} WHERE clock_moves_s_max IS NOT NULL)
        AND router NOT IN (SELECT router FROM {{change}} WHERE event = 'renewal')
),
said AS (
    SELECT blamed.router, blamed.taker, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq
    FROM {{blamed}} blamed
    LEFT JOIN {{apart}} apart ON apart.router = blamed.router AND apart.taker = blamed.taker
    JOIN {{run}} run ON run.router = blamed.taker
        AND run.start_t < blamed.t + coalesce(lower_ns, -{GRACE_NS})
    JOIN {{stop}} stop ON stop.router = run.router AND stop.boot = run.boot
        AND stop.t >= blamed.t + coalesce(upper_ns, {GRACE_NS})
    WHERE coalesce(lower_ns <= upper_ns, TRUE)
    GROUP BY blamed.router, blamed.taker
),
turned AS (
    SELECT router, peer, sum(count) AS count FROM {{door}} WHERE event = 'refused' GROUP BY router, peer
)
SELECT said.router, there.key AS peer, said.count, seq, CAST(NULL AS BIGINT) AS accepted_seq
FROM said
JOIN judged there ON there.router = said.taker
JOIN {{log}} own ON own.router = said.router
LEFT JOIN turned named ON named.router = said.taker AND named.peer = own.key
LEFT JOIN turned others ON others.router = said.taker AND others.peer IS NULL
WHERE said.router NOT IN (SELECT router FROM {{change}} WHERE event = 'renewal')
    AND said.count >= coalesce(named.count, 0) + coalesce(others.count, 0) + {UNBORNE_MIN}
"""
"""More messages that a neighbour is said to have refused than its log, in which no event before the last one is
missing, tells to have turned away from that router, with repetitions. Only what was refused surely within a run of the
neighbour that ended with `stop` counts, by the bounds of both clocks (`apart`), or by ten minutes where there are none:
a router that stops first writes down what it turned away, one that is killed loses it, and one that runs writes it the
later the more it is. A router tells each message that it refuses, and counts it at its door for whoever brought it;
lines that name nobody may be of anybody. A log of an older version, or that tells of renewed keys, is not judged."""

BORNE_OUT = """
WITH said AS (
    SELECT router, taker, sum(count) AS count FROM {refused} GROUP BY router, taker
),
turned AS (
    SELECT own.router, log.router AS taker, log.key, count(DISTINCT own.id) AS count, min(seq) AS seq
    FROM {refused_id} own
    JOIN {log} log ON log.router = own.taker
    JOIN {log} own_log ON own_log.router = own.router
    JOIN {door_id} door ON door.router = own.taker AND door.peer = own_log.key AND door.id = own.id
    GROUP BY own.router, log.router, log.key
)
SELECT said.router, turned.key AS peer, turned.seq
FROM said
JOIN turned ON turned.router = said.router AND turned.taker = said.taker
WHERE turned.count >= said.count
"""
"""Pairs of a router and a neighbour, whose own log names each message, at its door, that the router says it refused
because nobody had joined; `seq`: the first such line there. `refused`: as of `JOINED_THERE`; `refused_id`: these
messages (`router`, `taker`, `id`); `door_id`: those that lines at doors name (`router`, `peer`, `seq`, `id`), turned
away for `UNJOINED`."""

TEXTS = {"not-handed": NOT_HANDED, UNTURNED: NOT_TURNED_AWAY}
"""The texts by claim."""


def is_blamed(words: Iterable[Row]) -> bool:
    """Return whether a router says of as many messages as are judged that others refused them, for reasons of their
    own. `words`: how often routers give each reason (`router`, `event`, `reason`, `at_door`, `count`)."""
    counts: dict[str, int] = {}
    for row in words:
        if not row["at_door"] and row["event"] == "refused" and row["reason"] not in NOT_BLAMED:
            counts[row["router"]] = counts.get(row["router"], 0) + row["count"]
    return max(counts.values(), default=0) >= UNBORNE_MIN


def joined_here(claims: Iterable[Row], borne_out: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the claims, of which those `joined-there` that the neighbour's own door bears out become `joined-here`, of
    the neighbour. `borne_out`: what `BORNE_OUT` finds, with keys."""
    doors = {(row["router"], row["peer"]): row["seq"] for row in borne_out}
    return [_of_neighbour(row, doors.get((row["router"], row["peer"]))) for row in claims]


def _of_neighbour(row: Row, seq: int | None) -> dict[str, Any]:
    if row["claim"] != "joined-there" or seq is None:
        return dict(row)
    both = {"router": row["peer"], "peer": row["router"]}
    return {**row, **both, "claim": "joined-here", "first": {**row["first"], "seq": seq}}
