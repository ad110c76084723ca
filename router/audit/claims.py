"""What routers sign that cannot be, by their own logs or those of others: the texts that both engines read, and what
the local engine asks by itself."""

from __future__ import annotations

from typing import Any

from router.audit.database import Database
from spark_analytics.judgement.claim_sql import TEXTS
from spark_analytics.judgement.conflicts import row_of

Rows = list[dict[str, Any]]

_NAMES = {
    **{name: name for name in ("change", "log", "sent", "refused", "apart", "timed", "turned")},
    "handed": "handed_over",
    "owed": "owed_to_filled",
    "ended": "ended_of_filled",
}
"""The tables of `tables/claim.sql` by their names in the texts."""
_ANY = {
    "joined-there": "SELECT 1 FROM events WHERE event = 'refused' AND reason = 'no-subscribers'"
    " AND recipient IS NOT NULL LIMIT 1",
    "not-full": "SELECT 1 FROM filled LIMIT 1",
    "not-handed": "SELECT 1 FROM turned LIMIT 1",
    "other-time": "SELECT 1 FROM timed LIMIT 1",
}
"""Statements without a row where there is nothing of which a text could find a claim."""
_NAMED = "SELECT told.* REPLACE (key AS router) FROM ({text}) told JOIN routers USING (router)"
_IDS = """
SELECT key, seq, id_text(ids, 0) AS id
FROM accepted_line JOIN routers USING (router)
SEMI JOIN (SELECT unnest($routers) AS key, unnest($seqs) AS seq) wanted USING (key, seq)
"""


def claims(tables: Database) -> Rows:
    """Return the claims, each with its first line. A message left out is named by the first one of its line."""
    found = [*tables.find("claims"), *tables.find("refused_there")]
    if tables.rows("SELECT 1 FROM block WHERE (delivered | acked) & (~forwarded) <> 0 LIMIT 1"):
        found += tables.find("unwritten")
    for claim, text in TEXTS.items():
        if claim in _ANY and not tables.rows(_ANY[claim]):
            continue
        told = tables.rows(_NAMED.format(text=_filled(text)))
        ids = _ids(tables, told) if claim == "left-out" and told else {}
        found += [row_of(claim, row, ids.get((row["router"], row["seq"]))) for row in told]
    return found


def _filled(text: str) -> str:
    text = text.replace("{hint}", "")
    for name, table in _NAMES.items():
        text = text.replace(f"{{{name}}}", table)
    return text


def _ids(tables: Database, told: Rows) -> dict[tuple[str, int], str]:
    """Return the id of the first message of each accepted line, by router and event."""
    values = {"routers": [row["router"] for row in told], "seqs": [row["seq"] for row in told]}
    return {(row["key"], row["seq"]): row["id"] for row in tables.rows(_IDS, values)}
