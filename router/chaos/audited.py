"""The audit of the fleet's logs beside the ledger: two accounts of the same messages, which must agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from router.chaos.ledger import Ledger

_ZERO = {
    "unaccounted": "messages as unaccounted for", "residual": "messages as residual",
    "contradictions": "messages with two different ends",
}  # fmt: skip


class FleetAudit(Struct, frozen=True):
    """An audit of the logs of all nodes. `summary`: as `router audit --json` prints it; `ids`: of every message that
    was accepted anywhere, hex; `delivered`, `expired`: how many messages the app of each node had settled there, and
    how many expired there, by the node."""

    summary: Mapping[str, Any]
    ids: frozenset[str] = frozenset()
    delivered: Mapping[str, int] = field(default_factory=dict)
    expired: Mapping[str, int] = field(default_factory=dict)


def load_tables(out: Path, apps: Mapping[str, tuple[str, str]], summary: Mapping[str, Any]) -> FleetAudit:
    """Read the tables of an audit in `out`. `apps`: addresses of node and app, hex, by the node's name."""
    import duckdb

    with duckdb.connect() as database:
        ids = database.execute("SELECT id FROM read_parquet($1)", [str(out / "message.parquet")]).fetchall()
        question = "SELECT router, recipient, sum(delivered), sum(expired) FROM read_parquet($1) GROUP BY ALL"
        rows = database.execute(question, [str(out / "delivery.parquet")]).fetchall()
    found = {(router, recipient): (int(delivered), int(expired)) for router, recipient, delivered, expired in rows}
    delivered, expired = ({name: found.get(pair, (0, 0))[which] for name, pair in apps.items()} for which in range(2))
    return FleetAudit(summary, frozenset(id for (id,) in ids), delivered, expired)


def disagreements(ledger: Ledger, audit: FleetAudit, now_s: float) -> list[str]:
    """Return a sentence for each point at which the audit and the ledger do not agree, or the audit finds a fault, as
    of `now_s` (Unix seconds)."""
    summary = audit.summary
    found = [f"the audit counts {summary[key]} {what}" for key, what in _ZERO.items() if summary[key]]
    if summary["verdict"] == "bad":
        found += [f"the audit says: {one['text']}" for one in summary["findings"] if one["level"] == "bad"]
    for name, account in ledger.accounts.items():
        lost_s = max((one.lost_s for one in ledger.restores if one.node == name), default=0.0)
        unknown = [one for one in account.taken.values() if one.id not in audit.ids and one.at_s > lost_s]
        if unknown:
            said = f"{len(unknown)} messages that {name} took custody of, first {unknown[0].id[:12]}"
            found.append(f"the audit does not know {said}")
        settled, shown = audit.delivered.get(name, 0), len(account.ids_shown)
        # an app that is killed before it settles what it was shown may be back when the time of that is over
        unsettled = min(audit.expired.get(name, 0), ledger.count_expired(name, now_s))
        # after a restore its own may come back from other nodes, and an app is not shown its own
        own = len(account.taken) if lost_s else 0
        if settled > shown + own:
            found.append(f"the audit counts {settled} messages settled by the app of {name}, which was shown {shown}")
        if settled + unsettled < shown and not lost_s:
            found.append(f"the app of {name} was shown {shown} messages, of which the audit has {settled} as settled")
    return found
