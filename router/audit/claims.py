"""What routers sign that cannot be, by their own logs or those of others: the texts that both engines read, and what
the local engine asks by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.audit.database import Database
from spark_analytics.judgement import door_sql, order_sql, owed_sql
from spark_analytics.judgement.claim_sql import IS_UNEVEN, OF_MESSAGES, TEXTS, UNLINKED
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.impossible_ends import impossible
from spark_analytics.judgement.link_sql import PONG
from spark_analytics.judgement.presence_sql import HISTORY, STAYS, UNJUDGED, stay_steps
from spark_analytics.judgement.refusal_sql import LIMITS, OF_ENDS, claimable
from spark_analytics.judgement.unnamed_reasons import unnamed
from spark_analytics.report.reasons import SENTENCES

Rows = list[dict[str, Any]]

_UNANSWERED = """
SELECT 1
FROM (SELECT line, recipient FROM block WHERE unconfirmed <> 0) ended
SEMI JOIN owed USING (line, recipient)
SEMI JOIN (SELECT line FROM accepted WHERE is_within AND due_ns > t) asking USING (line)
LIMIT 1
"""
_STRAYED = "SELECT 1 FROM stray WHERE event NOT IN ('forwarded', 'deferred') LIMIT 1"
_FILLED = """(
    SELECT DISTINCT router, recipient
    FROM events
    WHERE event = 'refused' AND reason = 'queue-full-recipient' AND recipient IS NOT NULL
)"""
"""Recipients of which a queue is said to have been full."""
_CROWDED = """(
    SELECT DISTINCT router FROM events WHERE event = 'refused' AND reason = 'queue-full-group' AND recipient IS NOT NULL
)"""
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
            FROM events e JOIN routers there ON there.key = e.recipient
            WHERE e.event = 'refused' AND e.reason = '{door_sql.UNJOINED}'
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
_BLAMED = f"""(
    SELECT line.router, taker, ended.seq, ended.t, ended.count
    FROM accepted_line line
    JOIN (
        SELECT e.router, e.parcel, there.router AS taker, e.seq, e.count, e.t
        FROM events e JOIN routers there ON there.key = e.recipient
        WHERE e.event = 'refused' AND e.reason NOT IN {door_sql.NOT_BLAMED}
    ) ended ON ended.router = line.router AND ended.parcel = line.parcel
    WHERE is_asked(line.t)
)"""
"""Lines of messages that neighbours with a log here are said to have refused, for reasons that only they know."""
_LEFT = """
SELECT router, parcel, recipient, seq, count
FROM events
WHERE event = 'dropped' AND reason = 'left' AND recipient IS NOT NULL
"""
_SOURCES = {
    "change": "change",
    "log": """(
        SELECT routers.router, key, is_whole, is_unbroken, pruned_to, is_restored, start_ns, end_ns, hole_seq
        FROM routers JOIN log_end USING (router)
    )""",
    "sent": """(
        SELECT router, seq, n, signer AS group_key, peer, recipients,
            CASE WHEN len(recipients) = 1 THEN recipients[1] END AS alone,
            CASE WHEN len(recipients) = 1 THEN ids END AS alone_ids
        FROM accepted_line
        WHERE kind = 'multicast' AND is_asked(t)
    )""",
    "dropped": f"({_LEFT})",
    "owed_line": """(
        SELECT router, parcel, seq, signer AS group_key FROM accepted_line WHERE kind = 'multicast' AND is_asked(t)
    )""",
    "refused": """(
        SELECT line.router, taker, ended.seq, ended.count, line.signer AS group_key, line.seq AS accepted_seq,
            line.t AS accepted_t, ended.t AS refused_t
        FROM accepted_line line
        JOIN (
            SELECT e.router, e.parcel, there.router AS taker, e.seq, e.count, e.t
            FROM events e JOIN routers there ON there.key = e.recipient
            WHERE e.event = 'refused' AND e.reason = 'no-subscribers'
        ) ended ON ended.router = line.router AND ended.parcel = line.parcel
        WHERE line.kind IN ('multicast', 'copy') AND is_asked(line.t)
    )""",
    "door": _DOOR,
    "door_id": _DOOR_ID,
    "refused_id": _REFUSED_ID,
    "blamed": _BLAMED,
    "run": """(
        SELECT router, boot, min_by(t, seq) AS start_t FROM events WHERE mono IS NOT NULL GROUP BY router, boot
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
            FROM accepted_line SEMI JOIN {_FILLED} filled USING (router)
        ) line
        SEMI JOIN {_FILLED} filled USING (router, recipient)
    )""",
    "ended": f"""(
        SELECT router, recipient, seq, count, coalesce(reason, '') AS reason
        FROM events SEMI JOIN {_FILLED} filled USING (router, recipient)
        WHERE {_ENDED}
    )""",
    "held": f"""(
        SELECT line.router, unnest(line.recipients) AS recipient, signer, peer, line.seq, line.n, {_LARGEST}
        FROM accepted_line line SEMI JOIN {_CROWDED} crowded USING (router)
    )""",
    "released": f"""(
        SELECT e.router, e.recipient, line.signer, line.peer, e.seq, e.count, coalesce(e.reason, '') AS reason
        FROM (SELECT * FROM events SEMI JOIN {_CROWDED} crowded USING (router)) e
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
        FROM events e
        JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
        WHERE e.event = 'refused' AND e.recipient IS NOT NULL AND e.reason IS NOT NULL AND is_asked(line.t)
    )""",
    "settled": f"""(
        SELECT e.router, e.boot, e.link, e.recipient, {_LARGEST.replace("list_max", "list_min")}
        FROM (
            SELECT *
            FROM events
            SEMI JOIN (
                SELECT router, recipient FROM events WHERE event = 'refused' AND reason = 'too-large'
            ) refusing USING (router, recipient)
            WHERE event IN ('delivered', 'acked')
        ) e
        JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
    )""",
    "written": """(
        SELECT router, parcel, recipient, seq
        FROM events
        SEMI JOIN (SELECT router, parcel FROM events WHERE event = 'refused' AND recipient IS NOT NULL) ended
            USING (router, parcel)
        WHERE event = 'forwarded'
    )""",
}
"""What stands for each name in the texts. A view for each would be bound once more, whether a text reads it or not: in
an audit of few lines that is what costs."""
_IS_TOLD = "SELECT 1 WHERE EXISTS (SELECT 1 FROM change WHERE clock_moves_s_max IS NOT NULL)"
"""Whether any log says who joins and leaves: those of earlier versions do not."""
_IS_NEVER = "SELECT 1 FROM gone_there WHERE is_never LIMIT 1"
_ANY = {
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
        SELECT 1 FROM {_BLAMED} blamed GROUP BY router, taker HAVING sum(count) >= {door_sql.UNBORNE_MIN} LIMIT 1""",
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
_NAMED = "SELECT told.* REPLACE (key AS router) FROM ({text}) told JOIN routers USING (router)"
_IDS = """
WITH wanted AS (
    SELECT DISTINCT key, router, seq
    FROM (SELECT unnest($routers) AS key, unnest($seqs) AS seq) JOIN routers USING (key)
)
SELECT key, seq, id_text(ids, 0) AS id
FROM accepted_line JOIN wanted USING (router, seq)
UNION ALL
SELECT key, e.seq, id_of(line.ids, line.parcel, line.n, e.range_first)
FROM wanted
JOIN events e USING (router, seq)
JOIN accepted_line line ON line.router = e.router AND line.parcel = e.parcel
WHERE e.recipient IS NOT NULL
"""


def claims(tables: Database, reasons: Iterable[Mapping[str, Any]]) -> Rows:
    """Return the claims, each with its first line, and the first message of that. `reasons`: the rows of
    `findings/reasons.sql`."""
    idle = {*OF_ENDS} - claimable({(row["event"], row["reason"]) for row in reasons if not row["at_door"]})
    if is_shared := sum(STAYS in text for claim, text in TEXTS.items() if claim not in idle) > 1:
        _share_stays(tables)
    tables.run(f"CREATE TABLE unlinked AS {_filled(UNLINKED)}")
    found = [*tables.find("claims")]
    if tables.rows(_IS_NEVER):
        found += tables.find("refused_there")
    if tables.rows("SELECT 1 FROM block WHERE (delivered | acked) & (~forwarded) <> 0 LIMIT 1"):
        found += tables.find("unwritten")
    if tables.rows(_UNANSWERED):
        found += tables.find("unanswered")
    if tables.rows(_STRAYED):
        found += tables.find("not_owed")
    for claim, text in TEXTS.items():
        if claim in idle or (claim in _ANY and not tables.rows(_ANY[claim])):
            continue
        told = tables.rows(_NAMED.format(text=_filled(text.replace(STAYS, "WITH") if is_shared else text)))
        found += _rows_of(tables, claim, told)
    found += _by_order(tables, idle, is_shared=is_shared)
    if any(row["claim"] == "joined-there" for row in found):
        found = door_sql.joined_here(found, tables.rows(_NAMED.format(text=_filled(door_sql.BORNE_OUT))))
    return found


def _by_order(tables: Database, idle: Iterable[str], *, is_shared: bool) -> Rows:
    """Return the claims about pairs of logs of which the clocks tell nothing. `idle`: claims that no line is about;
    `is_shared`: whether the steps of `_share_stays` are there."""
    any_there = {**_ANY, "refused-there": _IS_NEVER}
    texts = {
        claim: text for claim, text in order_sql.TEXTS.items() if claim not in idle and tables.rows(any_there[claim])
    }
    if not texts:
        return []
    tables.run(f"CREATE TABLE untimed AS {_filled(order_sql.UNTIMED)}")
    if not tables.rows("SELECT 1 FROM untimed LIMIT 1"):
        return []
    tables.make("tie")
    found = []
    for claim, text in texts.items():
        told = tables.rows(_NAMED.format(text=_filled(text.replace(STAYS, "WITH") if is_shared else text)))
        found += _rows_of(tables, claim, told)
    return found


def unnamed_reasons(tables: Database, evidence: Evidence, reasons: Iterable[Mapping[str, Any]]) -> Rows:
    """Return the claims of messages that ended for a reason that the segment does not name. `reasons`: as of
    `claims`."""
    told = unnamed(evidence, reasons, SENTENCES)
    if told is None:
        return []
    numbers = {log.router: number for number, log in enumerate(evidence.logs)}
    files = [(numbers[router], *rest) for router, *rest in told.files]
    tables.run(
        "CREATE TABLE telling AS SELECT unnest(?::INTEGER[]) AS router, unnest(?::BIGINT[]) AS first_seq,"
        " unnest(?::BIGINT[]) AS last_seq, unnest(?::INTEGER[]) AS number",
        [list(column) for column in zip(*files, strict=True)],
    )
    tables.run(
        "CREATE TABLE named_reason AS SELECT unnest(?::INTEGER[]) AS number, unnest(?::VARCHAR[]) AS reason",
        [[number for number, _ in told.named], [reason for _, reason in told.named]],
    )
    tables.run("CREATE TABLE asked_reason AS SELECT unnest(?::VARCHAR[]) AS reason", [told.asked])
    return tables.find("unnamed")


def impossible_ends(tables: Database, reasons: Iterable[Mapping[str, Any]]) -> Rows:
    """Return the claims of messages that ended as no router ends them. `reasons`: as of `claims`."""
    ends = impossible(reasons, SENTENCES)
    if not ends:
        return []
    tables.run(
        "CREATE TABLE impossible_end AS SELECT unnest(?::VARCHAR[]) AS key, unnest(?::VARCHAR[]) AS event,"
        " unnest(?::VARCHAR[]) AS reason",
        [list(column) for column in zip(*ends, strict=True)],
    )
    return tables.find("impossible")


def unjudged(tables: Database) -> Rows:
    """Return where logs do not show who was left out, if anybody joined."""
    if not tables.rows("SELECT 1 FROM change WHERE event = 'join' LIMIT 1"):
        return []
    return tables.rows(_NAMED.format(text=_filled(UNJUDGED)))


def _share_stays(tables: Database) -> None:
    """Make tables of the steps with which several texts begin: to plan them for each text costs more, but to plan them
    for one, which reads few of their columns, does not."""
    for name, text in stay_steps():
        tables.run(f"CREATE TABLE {name} AS {_filled(text)}")


def _filled(text: str) -> str:
    text = text.replace("{hint}", "")
    for name, source in _SOURCES.items():
        text = text.replace(f"{{{name}}}", source)
    return text


def _rows_of(tables: Database, claim: str, told: Rows) -> Rows:
    ids = _ids(tables, told) if claim in OF_MESSAGES and told else {}
    return [row_of(claim, row, ids.get((row["router"], row["seq"]))) for row in told]


def _ids(tables: Database, told: Rows) -> dict[tuple[str, int], str]:
    """Return the id of the first message of each line, by router and event."""
    values = {"routers": [row["router"] for row in told], "seqs": [row["seq"] for row in told]}
    return {(row["key"], row["seq"]): row["id"] for row in tables.rows(_IDS, values)}
