"""What routers sign that cannot be, by their own logs or those of others: the texts that both engines read, and what
the local engine asks by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from router.audit.claim_sources import ANY, IS_NEVER, LOG, OWN_STEPS, REFUSALS, SHARED, SOURCES, filled
from router.audit.database import Database
from spark_analytics.judgement import door_sql, order_sql
from spark_analytics.judgement.claim_sql import OF_MESSAGES, TEXTS, UNLINKED
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.impossible_ends import impossible
from spark_analytics.judgement.link_sql import OWN, OWNS
from spark_analytics.judgement.presence_sql import STAYS, UNJUDGED, stay_steps
from spark_analytics.judgement.refusal_sql import OF_ENDS, claimable
from spark_analytics.judgement.unnamed_reasons import unnamed
from spark_analytics.report.reasons import SENTENCES

Rows = list[dict[str, Any]]

_UNANSWERED = """
SELECT 1
FROM accepted
SEMI JOIN (
    SELECT line
    FROM owed SEMI JOIN (SELECT line, recipient FROM block WHERE unconfirmed <> 0) ended USING (line, recipient)
) ended USING (line)
WHERE is_within AND due_ns > t
LIMIT 1
"""
_STRAYED = "SELECT 1 FROM stray LIMIT 1"
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


def claims(tables: Database, reasons: Sequence[Mapping[str, Any]]) -> Rows:
    """Return the claims, each with its first line, and the first message of that. `reasons`: the rows of
    `findings/reasons.sql`."""
    tables.run(f"CREATE TABLE log AS {LOG}")
    tables.run(f"CREATE TABLE unlinked AS {filled(UNLINKED)}")
    found = [*tables.find("claims")]
    if tables.rows(IS_NEVER):
        found += tables.find("refused_there")
    if tables.rows("SELECT 1 FROM block WHERE (delivered | acked) & (~forwarded) <> 0 LIMIT 1"):
        found += tables.find("unwritten")
    if tables.rows(_UNANSWERED):
        found += tables.find("unanswered")
    if tables.rows(_STRAYED):
        found += tables.find("not_owed")
    asked = _asked(tables, reasons)
    by_order = _asked_by_order(tables, asked)
    texts = [*asked.values(), *by_order.values()]
    made = _shared(tables, texts)
    if is_shared := _is_joined(tables) or sum(STAYS in text for text in texts) > 1:
        _share_stays(tables)
    if is_of_links := sum(OWNS in text for text in texts) > 1:
        tables.run(f"CREATE TABLE own AS {filled(OWN, made)}")
    for claim, text in [*asked.items(), *by_order.items()]:
        text = text.replace(STAYS, "WITH") if is_shared else text
        text = text.replace(OWNS, "WITH") if is_of_links else text
        found += _rows_of(tables, claim, tables.rows(_NAMED.format(text=filled(text, made))))
    if any(row["claim"] == "joined-there" for row in found):
        found = door_sql.joined_here(found, tables.rows(_NAMED.format(text=filled(door_sql.BORNE_OUT, made))))
    return found


def _asked(tables: Database, reasons: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the texts, by claim, of which the logs have lines of the kind of which they are made; make the tables that
    these texts have to themselves."""
    ends = {(row["event"], row["reason"]) for row in reasons if not row["at_door"]}
    idle = {*OF_ENDS} - claimable(ends)
    if any(event == "refused" for event, _ in ends):
        _make(tables, REFUSALS)
    if not door_sql.is_blamed(reasons):
        idle.add(door_sql.UNTURNED)
    asked = {}
    for claim, text in TEXTS.items():
        if claim in idle:
            continue
        _make(tables, OWN_STEPS.get(claim, {}))
        if claim not in ANY or tables.rows(ANY[claim]):
            asked[claim] = text
    return asked


def _asked_by_order(tables: Database, asked: Collection[str]) -> dict[str, str]:
    """Return the texts about pairs of logs of which the clocks tell nothing, by claim. `asked`: the claims that are
    asked for by clocks."""
    texts = {
        claim: text
        for claim, text in order_sql.TEXTS.items()
        if claim in asked or (claim == "refused-there" and tables.rows(IS_NEVER))
    }
    if not texts:
        return {}
    tables.run(f"CREATE TABLE untimed AS {filled(order_sql.UNTIMED)}")
    if not tables.rows("SELECT 1 FROM untimed LIMIT 1"):
        return {}
    tables.make("tie")
    return texts


def _shared(tables: Database, texts: Collection[str]) -> tuple[str, ...]:
    """Make tables of the sources that several of these texts read; return their names."""
    made = tuple(name for name in SHARED if sum(f"{{{name}}}" in text for text in texts) > 1)
    for name in made:
        tables.run(f"CREATE TABLE {name} AS FROM {SOURCES[name]}")
    return made


def _make(tables: Database, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        tables.run(f"CREATE TABLE {name} AS {text}")


def _is_joined(tables: Database) -> bool:
    return bool(tables.rows("SELECT 1 FROM change WHERE event = 'join' LIMIT 1"))


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
    """Return where logs do not show who was left out, if anybody joined; after `claims`, which makes tables of the
    steps for it."""
    if not _is_joined(tables):
        return []
    return tables.rows(_NAMED.format(text=filled(UNJUDGED.replace(STAYS, "WITH"))))


def _share_stays(tables: Database) -> None:
    """Make tables of the steps with which several texts begin: to plan them for each text costs more, but to plan them
    for one, which reads few of their columns, does not."""
    for name, text in stay_steps():
        tables.run(f"CREATE TABLE {name} AS {filled(text)}")


def _rows_of(tables: Database, claim: str, told: Rows) -> Rows:
    ids = _ids(tables, told) if claim in OF_MESSAGES and told else {}
    return [row_of(claim, row, ids.get((row["router"], row["seq"]))) for row in told]


def _ids(tables: Database, told: Rows) -> dict[tuple[str, int], str]:
    """Return the id of the first message of each line, by router and event."""
    values = {"routers": [row["router"] for row in told], "seqs": [row["seq"] for row in told]}
    return {(row["key"], row["seq"]): row["id"] for row in tables.rows(_IDS, values)}
