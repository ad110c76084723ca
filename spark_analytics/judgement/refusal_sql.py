"""Claims about messages that a router says were refused after it had accepted them, as `claim_sql` finds others.

A router that has no room for some recipients of a message leaves them out as it accepts it; what nobody has room for
it refuses at the door. `declined`: the lines of all that was refused after it was accepted, each with its acceptance
(`router`, `parcel`, `recipient`, `reason`, `seq`, `count`; `accepted_seq`, `units`: the messages of that line for all
its recipients, `group_key`; `is_at_once`: written at the same time of the same run; `waiting`: how many of the
messages that it names have a ttl longer than 0; `boot`, `link`, and `bytes` of the largest message of its acceptance).
"""

from __future__ import annotations

from collections.abc import Collection

FULL, FULL_GROUP = ROOMLESS = ("queue-full-recipient", "queue-full-group")
"""Reasons for which a recipient is left out for want of room: in its queue, and in a share of it or a sum over
queues."""
NOT_KEPT = "not-kept"
OFFLINE = "recipient-offline-ttl0"
LEFT_OUT_FOR = (*ROOMLESS, NOT_KEPT, OFFLINE)
"""Reasons for which a recipient is left out. What a recipient itself refuses for the former two is tried again."""
TOO_LARGE = "too-large"
OWN = (*LEFT_OUT_FOR, TOO_LARGE)
"""Reasons for which a router refuses a message for a recipient without writing it to that one."""
LIMITS = (
    "queue_messages_max", "queue_bytes_max", "group_percent", "group_messages_max", "group_bytes_max",
    "neighbour_messages_max", "neighbour_bytes_max", "node_messages_max", "node_bytes_max", "met_percent",
    "strangers_percent",
)  # fmt: skip
"""Fields of `config` lines that are limits, each a column of `room`."""

_UP_TO_HERE = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"

NOT_FULL = f"""
WITH most AS (
    SELECT room.router, min(queue_messages_max) AS messages_max, min(queue_bytes_max) AS bytes_max,
        min(hole_seq) AS hole_seq
    FROM {{room}} room JOIN {{log}} log ON log.router = room.router
    WHERE pruned_to = 0
    GROUP BY room.router
),
step AS (
    SELECT router, recipient, seq, seq AS accepted_seq, n AS added, bytes, 0 AS count FROM {{owed}}
    UNION ALL
    SELECT router, recipient, seq, 0, -count, 0, CASE WHEN reason = '{FULL}' THEN count ELSE 0 END FROM {{ended}}
),
filled AS (
    SELECT router, recipient, seq, count, max(accepted_seq) OVER own AS accepted_seq,
        count + sum(added) OVER own AS messages, max(bytes) OVER own AS bytes
    FROM step
    WINDOW own AS (PARTITION BY router, recipient ORDER BY seq {_UP_TO_HERE})
),
renewed AS (
    SELECT DISTINCT router, new_key FROM {{change}} change WHERE event = 'renewal'
)
SELECT filled.router, recipient AS peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq,
    min_by(accepted_seq, seq) AS accepted_seq
FROM filled
JOIN most ON most.router = filled.router
LEFT JOIN renewed ON renewed.router = filled.router AND renewed.new_key = recipient
WHERE count > 0 AND seq < hole_seq AND 2 * messages <= messages_max
    AND 2 * CAST(messages AS DOUBLE) * CAST(bytes AS DOUBLE) <= bytes_max AND renewed.router IS NULL
GROUP BY filled.router, recipient
"""
"""Messages refused because a recipient's queue was full, where by the router's own log no more than half of it was, in
messages and, if all were as large as the largest, in bytes. `owed`, `ended`: of routers and recipients for which that
was said, what was accepted (`router`, `recipient`, `seq`, `n`, `bytes`: of the largest message) and what ended (`seq`,
`count`, `reason`). A key that follows another has that one's queue, and is not judged; `room`: the limits that each
`config` line tells."""


def _half(messages: str, size: str, messages_max: str, bytes_max: str) -> str:
    """Return SQL for whether so many messages, each of that size at most, are no more than half of these limits."""
    size = f"2 * CAST({messages} AS DOUBLE) * CAST({size} AS DOUBLE)"
    return f"2 * {messages} <= {messages_max} AND {size} <= {bytes_max}"


def _share(percent: str) -> tuple[str, str]:
    """Return SQL for the messages and bytes that are so much of a recipient's queue."""
    return f"greatest(1, floor(queue_messages_max * {percent} / 100))", f"floor(queue_bytes_max * {percent} / 100)"


def _brought(name: str) -> str:
    """Return SQL for how many of these all bring who have a share of the node together, each with its own limit."""
    of_one = f"neighbour_{name}_max"
    return (
        f"CASE WHEN is_known THEN {of_one} ELSE least({of_one}, floor(node_{name}_max * strangers_percent / 100)) END"
    )


_ITS_PERCENT = "CASE WHEN is_known THEN group_percent ELSE least(group_percent, met_percent) END"
NOT_CROWDED = f"""
WITH limits AS (
    SELECT room.router, {", ".join(f"min({name}) AS {name}" for name in LIMITS)}, min(hole_seq) AS hole_seq
    FROM {{room}} room JOIN {{log}} log ON log.router = room.router
    WHERE pruned_to = 0
    GROUP BY room.router
    HAVING count(group_messages_max) = count(*)
),
telling AS (
    SELECT router FROM {{room}} room GROUP BY router HAVING count(strangers_percent) = count(*)
),
known AS (
    SELECT router, peer
    FROM {{change}} change
    WHERE event IN ('link_up', 'config') AND peer IS NOT NULL
    GROUP BY router, peer
    HAVING count(CASE WHEN standing IN ('met', 'stranger') THEN 1 END) = 0
        AND min(CASE WHEN event = 'link_up' THEN seq END) > coalesce(max(CASE WHEN event = 'config' THEN seq END), 0)
),
moved AS (
    SELECT router, recipient, signer, peer, seq, seq AS accepted_seq, n AS added, bytes, 0 AS count FROM {{held}}
    UNION ALL
    SELECT router, recipient, signer, peer, seq, 0, -count, 0, CASE WHEN reason = '{FULL_GROUP}' THEN count ELSE 0 END
    FROM {{released}}
),
step AS (
    SELECT moved.router, recipient, signer, known.peer, known.peer IS NOT NULL AS is_known, seq, accepted_seq, added,
        bytes, count
    FROM moved LEFT JOIN known ON known.router = moved.router AND known.peer = moved.peer
),
filled AS (
    SELECT router, recipient, is_known, seq, count, max(accepted_seq) OVER group_here AS accepted_seq,
        count + sum(added) OVER group_here AS group_here, count + sum(added) OVER peer_here AS peer_here,
        count + sum(added) OVER in_group AS in_group, count + sum(added) OVER by_peer AS by_peer,
        max(bytes) OVER (PARTITION BY router) AS bytes
    FROM step
    WINDOW group_here AS (PARTITION BY router, recipient, signer ORDER BY seq {_UP_TO_HERE}),
        peer_here AS (PARTITION BY router, recipient, peer ORDER BY seq {_UP_TO_HERE}),
        in_group AS (PARTITION BY router, signer ORDER BY seq {_UP_TO_HERE}),
        by_peer AS (PARTITION BY router, peer ORDER BY seq {_UP_TO_HERE})
)
SELECT filled.router, recipient AS peer, CAST(sum(count) AS BIGINT) AS count, min(filled.seq) AS seq,
    min_by(accepted_seq, filled.seq) AS accepted_seq
FROM filled
JOIN limits ON limits.router = filled.router
LEFT JOIN telling ON telling.router = filled.router
WHERE count > 0 AND filled.seq < hole_seq AND (is_known OR telling.router IS NOT NULL)
    AND filled.router NOT IN (SELECT router FROM {{change}} change WHERE event = 'renewal')
    AND {_half("group_here", "bytes", *_share("group_percent"))}
    AND {_half("peer_here", "bytes", *_share(_ITS_PERCENT))}
    AND {_half("in_group", "bytes", "group_messages_max", "group_bytes_max")}
    AND {_half("by_peer", "bytes", _brought("messages"), _brought("bytes"))}
GROUP BY filled.router, recipient
"""
"""Messages refused because a share of a queue, or the sum of a group or of who brought them, was full, where by the
router's own log no more than half was of any of the four: of the group in that recipient's queue, of the bringer in it,
of the group in all queues, and of the bringer in all. `held`, `released`: of routers that say so, what was accepted and
what ended, by recipient (as `owed` and `ended` of `NOT_FULL`; `signer`: the group or source, `peer`: who brought it).
Strangers have one share together, and a router known by meetings has a smaller one: what they bring, and who has no
link by its name or whose rights changed after it had one, is taken together, and judged by the least of these limits,
where each `config` line tells them. A log that tells of renewed keys, or of which a `config` line lacks the limits of
groups, is not judged."""

NO_ROOM = f"""
WITH lines AS (
    SELECT declined.*,
        sum(CASE WHEN is_at_once THEN count ELSE 0 END) OVER (PARTITION BY router, accepted_seq) AS left_out
    FROM {{declined}} declined
    WHERE reason IN {LEFT_OUT_FOR}
)
SELECT router, recipient AS peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq,
    min_by(accepted_seq, seq) AS accepted_seq
FROM lines
WHERE left_out >= units OR NOT is_at_once AND reason IN {ROOMLESS}
GROUP BY router, recipient
"""
"""Messages refused for want of room later than they were accepted, or of which every recipient was left out: a router
looks for room as it accepts, and refuses at the door what it would owe to nobody."""

_UNWRITTEN = """JOIN {log} log ON log.router = declined.router
JOIN (SELECT DISTINCT router FROM {change} WHERE clock_moves_s_max IS NOT NULL) told ON told.router = declined.router
LEFT JOIN (
    SELECT router, parcel, recipient, min(seq) AS seq FROM {written} GROUP BY router, parcel, recipient
) written ON written.router = declined.router AND written.parcel = declined.parcel
    AND written.recipient = declined.recipient AND written.seq < declined.seq
WHERE declined.seq < hole_seq AND written.seq IS NULL"""
"""Which of these were not written before, by logs that would tell so."""

REFUSED_UNWRITTEN = f"""
SELECT declined.router, declined.recipient AS peer, CAST(sum(count) AS BIGINT) AS count, min(declined.seq) AS seq,
    min_by(accepted_seq, declined.seq) AS accepted_seq
FROM {{declined}} declined
{_UNWRITTEN}
    AND (reason NOT IN {OWN} OR NOT is_at_once AND reason IN {(NOT_KEPT, OFFLINE)})
GROUP BY declined.router, declined.recipient
"""
"""Messages that a recipient is said to have refused, although the log, which is whole up to there and of a version that
tells of all that is written, does not tell that any of their parcel was written to it before. What the router itself
leaves somebody out for as it accepts, only a recipient says later. `written`: the lines `forwarded` of these parcels
(`router`, `parcel`, `recipient`, `seq`)."""

NOT_TOO_LARGE = f"""
WITH most AS (
    SELECT router, boot, link, recipient, max(bytes) AS bytes FROM {{settled}} settled
    GROUP BY router, boot, link, recipient
),
found AS (
    SELECT declined.router, declined.recipient, declined.seq, declined.count, accepted_seq
    FROM (
        SELECT declined.*, most.bytes AS most_bytes
        FROM {{declined}} declined
        JOIN most ON most.router = declined.router AND most.recipient = declined.recipient AND most.boot = declined.boot
            AND (most.link = declined.link OR declined.link = 0)
        WHERE reason = '{TOO_LARGE}'
    ) declined
    {_UNWRITTEN}
    GROUP BY declined.router, declined.recipient, declined.seq, declined.count, accepted_seq
    HAVING max(most_bytes) >= max(bytes)
)
SELECT router, recipient AS peer, CAST(sum(count) AS BIGINT) AS count, min(seq) AS seq,
    min_by(accepted_seq, seq) AS accepted_seq
FROM found
GROUP BY router, recipient
"""
"""Messages that a router says were too long for the link to a recipient, to which it did not write them, although over
that link the recipient settled one that is as long: how long it takes them, it tells as a link begins. A line that
names no link is compared with all of the run. `settled`: lines of messages that reached who is said not to take others
(`router`, `boot`, `link`, `recipient`; `bytes`: of the smallest message of its acceptance)."""

MAY_WAIT = f"""
SELECT router, recipient AS peer, CAST(sum(waiting) AS BIGINT) AS count, min(seq) AS seq,
    min_by(accepted_seq, seq) AS accepted_seq
FROM {{declined}} declined
WHERE reason = '{OFFLINE}' AND is_at_once AND waiting > 0
GROUP BY router, recipient
"""
"""Messages of which a router left a recipient out as it was away and their ttl forbade to wait, although their ttl is
longer than 0. What is said later may be the recipient's word."""

TEXTS = {
    "not-full": NOT_FULL,
    "not-crowded": NOT_CROWDED,
    "no-room": NO_ROOM,
    "refused-unwritten": REFUSED_UNWRITTEN,
    "may-wait": MAY_WAIT,
    "not-too-large": NOT_TOO_LARGE,
}
"""The texts by claim."""


def claimable(ends: Collection[tuple[str, str | None]]) -> set[str]:
    """Return the claims, also of other texts, for which a log has lines of the kind of which they are made. `ends`: the
    pairs of event and reason of lines that are not about the door."""
    refused = {reason for event, reason in ends if event == "refused" and reason is not None}
    found = {
        "not-full": FULL in refused,
        "not-crowded": FULL_GROUP in refused,
        "no-room": not refused.isdisjoint(LEFT_OUT_FOR),
        "refused-unwritten": not refused <= {*ROOMLESS, TOO_LARGE},
        "may-wait": OFFLINE in refused,
        "not-too-large": TOO_LARGE in refused,
        "joined-there": "no-subscribers" in refused,
        "not-away": NOT_KEPT in refused,
        "not-turned-away": not refused <= {*OWN, "duplicate"},
    }
    return {claim for claim, is_so in found.items() if is_so}


OF_ENDS = (
    "not-full",
    "not-crowded",
    "no-room",
    "refused-unwritten",
    "may-wait",
    "not-too-large",
    "joined-there",
    "not-away",
    "not-turned-away",
)
"""The claims of which `claimable` tells."""
