"""What stands for the names in the texts about claims in the local engine, and when a text is asked."""

from __future__ import annotations

from collections.abc import Collection

from spark_analytics.judgement import door_sql, owed_sql
from spark_analytics.judgement.claim_sql import IS_UNEVEN
from spark_analytics.judgement.link_sql import PONG
from spark_analytics.judgement.presence_sql import HISTORY
from spark_analytics.judgement.refusal_sql import LIMITS

_FILLED = """
SELECT DISTINCT router, recipient
FROM refusal
WHERE reason = 'queue-full-recipient'
"""
"""Recipients of which a queue is said to have been full."""
_CROWDED = "SELECT DISTINCT router FROM refusal WHERE reason = 'queue-full-group'"
"""Routers that say that a share was full."""
_ENDED = "event IN ('delivered', 'acked', 'unconfirmed', 'refused', 'expired', 'dropped', 'evicted')"
_LARGEST = "CASE WHEN line.sizes IS NULL THEN line.bytes // line.n ELSE list_max(line.sizes) END AS bytes"
_TIMED = """(
    WITH moves AS (
        SELECT router, max(clock_moves_s_max) AS most_s FROM change GROUP BY router
    ),
    odd AS (
        SELECT router, boot
        FROM stretch JOIN moves USING (router)
        GROUP BY router, boot, most_s
        HAVING max(max_apart_ns) - min(min_apart_ns) > most_s::HUGEINT * 1_000_000_000
    )
    SELECT router, boot, seq, t, mono FROM events SEMI JOIN odd USING (router, boot)
)"""
"""The lines of boots in which the wall clock moved further against the monotonic one than routers let pass."""
_TURNED = """(
    SELECT router, peer, seq, t, count
    FROM events SEMI JOIN (SELECT key AS peer FROM routers) known USING (peer)
    WHERE recipient IS NULL AND event IN ('refused', 'duplicate') AND is_asked(t)
)"""
_ODD = """(
    SELECT router, peer, seq, n,
        CASE WHEN len(recipients) = 0 THEN NULL WHEN kind = 'copy' THEN recipients[1] ELSE destination END AS app
    FROM accepted_line
    WHERE is_asked(t) AND (len(recipients) = 0 OR kind = 'copy'
        OR kind = 'unicast' AND NOT list_contains(recipients, destination))
)"""
"""Accepted lines that name nobody, or not whom they are addressed to, and copies."""
_DOOR = """(
    SELECT router, peer, event, reason, seq, count
    FROM events
    WHERE recipient IS NULL AND event IN ('refused', 'duplicate')
        AND (peer IS NULL OR peer IN (SELECT key FROM routers))
)"""
"""Lines of messages turned away at the door, of neighbours with a log here or of nobody by name."""
_DOOR_ID = f"""(
    SELECT router, peer, seq, id_text(ids, i) AS id
    FROM (
        SELECT router, peer, seq, ids, unnest(range(length(ids) // 64))::INTEGER AS i
        FROM events
        WHERE recipient IS NULL AND event = 'refused' AND reason = '{door_sql.UNJOINED}'
            AND peer IN (SELECT key FROM routers)
    )
)"""
_REFUSED_ID = f"""(
    WITH ended AS (
        SELECT line.router, taker, line.ids, line.parcel, line.n, range_first, e.n AS range_count, more_ranges
        FROM (
            SELECT e.router, e.parcel, there.router AS taker, range_first, e.n, more_ranges
            FROM refusal e JOIN routers there ON there.key = e.recipient
            WHERE e.reason = '{door_sql.UNJOINED}'
        ) e
        JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
        WHERE line.kind IN ('multicast', 'copy')
    ),
    piece AS (
        SELECT * EXCLUDE (more_ranges) FROM ended
        UNION ALL
        SELECT * EXCLUDE (more_ranges, range_first, range_count, range), range[1], range[2]
        FROM (SELECT *, unnest(more_ranges) AS range FROM ended)
    )
    SELECT router, taker, id_text(ids, i) AS id
    FROM (
        SELECT router, taker, ids, unnest(range(
            greatest(0, range_first - parcel), least(n, range_first - parcel + range_count)
        ))::INTEGER AS i
        FROM piece
    )
)"""
_BLAMED = f"""
SELECT line.router, there.router AS taker, e.seq, e.t, e.count
FROM refusal e
JOIN routers there ON there.key = e.recipient
JOIN refused_line line ON line.router = e.router AND line.parcel = e.parcel
WHERE e.reason NOT IN {door_sql.NOT_BLAMED} AND is_asked(line.t)
"""
"""Lines of messages that neighbours with a log here are said to have refused, for reasons that only they know."""
_LEFT = """
SELECT router, parcel, recipient, seq, count
FROM events
WHERE event = 'dropped' AND reason = 'left' AND recipient IS NOT NULL
"""
REFUSALS = {
    "refusal": """
SELECT router, parcel, recipient, reason, seq, t, mono, boot, link, count, range_first, n, more_ranges
FROM events
WHERE event = 'refused' AND recipient IS NOT NULL
""",
    "refused_line": """
SELECT line, router, parcel, n, recipients, seq, t, mono, boot, kind, signer, ttl_s, bytes, sizes, ttls
FROM accepted_line SEMI JOIN refusal USING (router, parcel)
""",
}
"""Tables of messages that ended as refused, and of the lines in which these were accepted, where there are any."""
LOG = """
SELECT routers.router, key, is_whole, is_unbroken, pruned_to, is_restored, start_ns, end_ns, hole_seq
FROM routers JOIN log_end USING (router)
"""
SOURCES = {
    "change": "change",
    "log": "log",
    "sent": """(
        SELECT router, seq, n, signer AS group_key, peer, recipients,
            CASE WHEN len(recipients) = 1 THEN recipients[1] END AS alone,
            CASE WHEN len(recipients) = 1 THEN ids END AS alone_ids
        FROM accepted_line
        WHERE kind = 'multicast' AND is_asked(t)
    )""",
    "dropped": "dropped",
    "owed_line": """(
        SELECT router, parcel, seq, signer AS group_key
        FROM accepted_line SEMI JOIN dropped USING (router, parcel)
        WHERE kind = 'multicast' AND is_asked(t)
    )""",
    "refused": """(
        SELECT line.router, there.router AS taker, e.seq, e.count, line.signer AS group_key,
            line.seq AS accepted_seq, line.t AS accepted_t, e.t AS refused_t
        FROM refusal e
        JOIN routers there ON there.key = e.recipient
        JOIN refused_line line ON line.router = e.router AND line.parcel = e.parcel
        WHERE e.reason = 'no-subscribers' AND line.kind IN ('multicast', 'copy') AND is_asked(line.t)
    )""",
    "door": _DOOR,
    "door_id": _DOOR_ID,
    "refused_id": _REFUSED_ID,
    "blamed": "blamed",
    "run": """(
        SELECT first.router, first.boot, min(t) AS start_t
        FROM events e
        JOIN (
            SELECT router, boot, min(first_seq) AS seq FROM stretch WHERE first_seq IS NOT NULL GROUP BY router, boot
        ) first ON first.router = e.router AND first.seq = e.seq
        GROUP BY first.router, first.boot
    )""",
    "stop": "(SELECT router, boot, t FROM events WHERE event = 'stop')",
    "apart": "apart",
    "tie": "tie",
    "gone": """(
        SELECT gone.router, gone.taker, gone.seq, gone.t, there_seq, id_text(ids, i) AS id,
            kind = 'unicast' OR kind = 'multicast' AND carrier.router IS NULL AND pulled.router IS NULL AS is_alone
        FROM gone_there gone
        JOIN (SELECT line, ids, parcel, kind FROM accepted_line) line USING (line)
        LEFT JOIN (
            SELECT DISTINCT line.router, there.router AS taker
            FROM accepted_line line JOIN routers there ON there.key = line.destination
        ) carrier ON carrier.router = gone.router AND carrier.taker = gone.taker
        LEFT JOIN (
            SELECT DISTINCT e.router, e.parcel, there.router AS taker
            FROM events e JOIN routers there ON there.key = e.recipient
            WHERE e.event = 'pulled'
        ) pulled ON pulled.router = gone.router AND pulled.parcel = line.parcel AND pulled.taker = gone.taker
        WHERE is_never
    )""",
    "had": f"""(
        SELECT there.router, id, min(seq) AS seq, min(there.t) AS t
        FROM accepted_id there
        JOIN (
            SELECT DISTINCT id_text(ids, i) AS id, id_low(ids, i) AS low, id_high(ids, i) AS high
            FROM (
                SELECT ids, unnest(range(length(ids) // 64))::INTEGER AS i FROM change WHERE event = '{HISTORY}'
            )
        ) asked USING (low, high)
        JOIN (SELECT line, seq FROM accepted) USING (line)
        GROUP BY there.router, id
    )""",
    "timed": _TIMED,
    "acked": """(
        SELECT router, boot, link, recipient, min(seq) AS seq, max(seq) AS last_seq
        FROM events
        WHERE event IN ('delivered', 'acked')
        GROUP BY ALL
    )""",
    "boot": """(
        SELECT router, boot, min(seq) AS seq, max(coalesce(last_seq, seq)) AS last_seq
        FROM stretch
        GROUP BY router, boot
    )""",
    "pong": f"""(
        SELECT router, boot, seq, t, fields['peer'] AS peer FROM events WHERE event = '{PONG}' AND recipient IS NULL
    )""",
    "paced": f"""(
        SELECT router, boot, first_seq AS seq, first_mono AS mono FROM stretch WHERE first_seq IS NOT NULL
        UNION
        SELECT router, boot, last_seq, last_mono FROM stretch WHERE last_seq IS NOT NULL
        UNION
        SELECT router, boot, seq, mono
        FROM events SEMI JOIN (SELECT router, boot, file FROM stretch WHERE {IS_UNEVEN}) uneven
            USING (router, boot, file)
        WHERE mono IS NOT NULL
    )""",
    "turned": _TURNED,
    "handed": """(
        SELECT router, recipient, sum(count)::BIGINT AS count
        FROM events SEMI JOIN (SELECT key AS recipient FROM routers) known USING (recipient)
        WHERE event IN ('forwarded', 'pulled')
        GROUP BY router, recipient
    )""",
    "odd": _ODD,
    "copied": """(
        SELECT router, peer, sum(n)::BIGINT AS count, min(seq) AS seq
        FROM accepted_line
        WHERE kind = 'copy' AND is_asked(t)
        GROUP BY router, peer
    )""",
    "owed": f"""(
        SELECT line.router, recipient, line.seq, line.n, {_LARGEST}
        FROM (
            SELECT router, seq, n, bytes, sizes, unnest(recipients) AS recipient
            FROM accepted_line SEMI JOIN filled USING (router)
        ) line
        SEMI JOIN filled USING (router, recipient)
    )""",
    "ended": f"""(
        SELECT router, recipient, seq, count, coalesce(reason, '') AS reason
        FROM events SEMI JOIN filled USING (router, recipient)
        WHERE {_ENDED}
    )""",
    "held": f"""(
        SELECT line.router, unnest(line.recipients) AS recipient, signer, peer, line.seq, line.n, {_LARGEST}
        FROM accepted_line line SEMI JOIN crowded USING (router)
    )""",
    "released": f"""(
        SELECT e.router, e.recipient, line.signer, line.peer, e.seq, e.count, coalesce(e.reason, '') AS reason
        FROM (SELECT * FROM events SEMI JOIN crowded USING (router)) e
        JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
        WHERE e.recipient IS NOT NULL AND e.{_ENDED}
    )""",
    "room": f"""(
        SELECT router, {", ".join(f"number_of_text(fields['{name}']) AS {name}" for name in LIMITS)}
        FROM events
        WHERE event = 'config' AND recipient IS NULL
    )""",
    "declined": f"""(
        SELECT e.router, e.parcel, e.recipient, e.reason, e.seq, e.count, line.seq AS accepted_seq,
            line.n * len(line.recipients) AS units, line.signer AS group_key,
            coalesce(e.boot = line.boot AND e.mono = line.mono, TRUE) AS is_at_once, e.boot, e.link, {_LARGEST},
            CASE WHEN e.reason = 'recipient-offline-ttl0' THEN CASE
                WHEN e.mono IS NULL OR coalesce(line.ttl_s, 0) = 0 THEN 0
                WHEN line.ttls IS NULL THEN e.count
                ELSE list_sum(list_transform(
                    list_concat([[e.range_first, e.n]], coalesce(e.more_ranges, [])),
                    lambda part: len(list_filter(
                        line.ttls[greatest(1, part[1] - line.parcel + 1) : part[1] - line.parcel + part[2]],
                        lambda ttl: ttl > 0
                    ))
                ))
            END END AS waiting
        FROM refusal e JOIN refused_line line ON line.router = e.router AND line.parcel = e.parcel
        WHERE e.reason IS NOT NULL AND is_asked(line.t)
    )""",
    "settled": f"""(
        SELECT e.router, e.boot, e.link, e.recipient, {_LARGEST.replace("list_max", "list_min")}
        FROM (
            SELECT *
            FROM events
            SEMI JOIN (SELECT router, recipient FROM refusal WHERE reason = 'too-large') refusing
                USING (router, recipient)
            WHERE event IN ('delivered', 'acked')
        ) e
        JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
    )""",
    "written": """(
        SELECT router, parcel, recipient, seq
        FROM events SEMI JOIN refusal USING (router, parcel)
        WHERE event = 'forwarded'
    )""",
}
"""What stands for each name in the texts. A view for each would be bound once more, whether a text reads it or not: in
an audit of few lines that is what costs."""
_IS_TOLD = "SELECT 1 WHERE EXISTS (SELECT 1 FROM change WHERE clock_moves_s_max IS NOT NULL)"
"""Whether any log says who joins and leaves: those of earlier versions do not."""
IS_NEVER = "SELECT 1 FROM gone_there WHERE is_never LIMIT 1"
ANY = {
    "begun-twice": "SELECT 1 FROM change WHERE event = 'start' GROUP BY router HAVING count(*) > 1 LIMIT 1",
    "copied-by-nobody": f"{_IS_TOLD} AND EXISTS (SELECT 1 FROM accepted WHERE kind = 'copy')",
    "heard-when-down": f"SELECT 1 FROM events WHERE event = '{PONG}' LIMIT 1",
    "joined-there": _IS_TOLD,
    "linked-there": "SELECT 1 FROM change SEMI JOIN (SELECT key AS peer FROM routers) known USING (peer)"
    " WHERE event = 'link_down' LIMIT 1",
    "left-out": _IS_TOLD,
    "no-history": f"SELECT 1 FROM change WHERE event = '{HISTORY}' LIMIT 1",
    "not-begun": _IS_TOLD,
    "not-left": f"{_IS_TOLD} AND EXISTS ({_LEFT})",
    "not-away": _IS_TOLD,
    "not-handed": f"SELECT 1 FROM {_TURNED} turned LIMIT 1",
    door_sql.UNTURNED: f"""
        SELECT 1 FROM blamed GROUP BY router, taker HAVING sum(count) >= {door_sql.UNBORNE_MIN} LIMIT 1""",
    "time-back": f"""
        SELECT 1
        FROM (
            SELECT {IS_UNEVEN}
                OR first_mono < lag(last_mono) OVER (PARTITION BY router, boot ORDER BY first_seq) AS is_odd
            FROM stretch
            WHERE first_seq IS NOT NULL
        )
        WHERE is_odd
        LIMIT 1""",
    "other-time": f"SELECT 1 FROM {_TIMED} timed LIMIT 1",
    owed_sql.CLAIM: f"""
        SELECT 1
        FROM {_ODD} odd
        WHERE app IS NULL OR app IN (SELECT peer FROM change WHERE event = 'link_up' AND standing = 'local')
        LIMIT 1""",
}
"""Statements without a row where there is nothing of which a text could find a claim."""
OWN_STEPS = {
    "not-full": {"filled": _FILLED},
    "not-crowded": {"crowded": _CROWDED},
    "not-left": {"dropped": _LEFT},
    door_sql.UNTURNED: {"blamed": _BLAMED},
}
"""Tables that are made before a claim is asked for: what its text and `ANY` read more than once."""
SHARED = ("declined", "pong", "refused", "room")
"""Names in the texts of which a table is made where several texts that are asked have them."""


def filled(text: str, made: Collection[str] = ()) -> str:
    """Return a text with what stands for its names; `made`: those of which a table was made."""
    text = text.replace("{hint}", "")
    for name, source in SOURCES.items():
        text = text.replace(f"{{{name}}}", name if name in made else source)
    return text
