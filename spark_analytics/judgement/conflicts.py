"""Contradictions in logs, within one log or with the footers of pruned segments, as rows for the summary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from . import circles
from .chain import Seal
from .evidence import Evidence, Log
from .schema import ENDS, GRACE_NS

Row = Mapping[str, Any]

CLAIMS = ("claim", "router", "peer", "count", "seq", "file", "accepted_seq", "accepted_file", "id")
"""The columns of the table `claims`."""
UNLIKE_FACTS = {
    "other-kind": "kind",
    "other-sender": "source or group",
    "other-destination": "destination",
    "other-expiry": "expiry",
    "other-ttl": "ttl",
    "other-size": "size",
}
"""The claims about messages of which the logs of `router` and `peer` tell facts that belong to the id, and the fact."""
OF_PEER = frozenset((*UNLIKE_FACTS, "refused-there", "joined-there", "linked-there", "no-history", circles.CLAIM))
"""The claims of which `accepted_seq` is a line of the log of `peer`."""


def row_of(claim: str, row: Row, id: str | None) -> dict[str, Any]:
    """Return a row that a text of `claim_sql` found, with the router's key, as both engines give it to `claims`. `id`:
    of the message, where the text does not name it."""
    first = {"seq": row["seq"], "accepted_seq": row["accepted_seq"], "id": row.get("id", id)}
    return {"claim": claim, **{name: row[name] for name in ("router", "peer", "count")}, "first": first}


def placed(rows: Iterable[Row], evidence: Evidence, columns: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows in order of these columns, each with the `file` that holds its event `seq`; None if none does."""
    files: dict[str, list[tuple[int, int, str]]] = {}
    for file in evidence.files:
        if file.status in ("good", "tail") and file.router is not None:
            files.setdefault(file.router, []).append((file.first_seq, file.last_seq, file.path))
    for own in files.values():
        own.sort()
    found = [{**row, "file": _file_of(files.get(row["router"], []), row["seq"])} for row in rows]
    return sorted(found, key=lambda row: [row[name] for name in columns])


def claims(rows: Iterable[Row], evidence: Evidence) -> list[dict[str, Any]]:
    """Return what routers claim that cannot be, each with its first line (`seq`, `file`), the acceptance that this line
    is about or that contradicts it (`accepted_seq`, `accepted_file`; of `OF_PEER` in the log of `peer`) and the
    message's `id`, as far as there are any."""
    flat = [{**{name: row[name] for name in row if name != "first"}, **row["first"]} for row in rows]
    places = [
        {"router": row["peer" if row["claim"] in OF_PEER else "router"], "seq": row["accepted_seq"]}
        for row in flat
        if row["accepted_seq"] is not None
    ]
    files = {(row["router"], row["seq"]): row["file"] for row in placed(places, evidence, ("router", "seq"))}
    told = (
        {
            **row,
            "accepted_file": files.get((row["peer" if row["claim"] in OF_PEER else "router"], row["accepted_seq"])),
        }
        for row in flat
    )
    return placed(told, evidence, ("claim", "router", "peer"))


def _file_of(files: list[tuple[int, int, str]], seq: int) -> str | None:
    at = bisect_right(files, seq, key=lambda file: file[0])
    return next((path for _, last, path in reversed(files[:at]) if seq <= last), None)


def pruned_open(
    evidence: Evidence, strays: Mapping[str, int], ends: Mapping[str, int], ttls_s: Mapping[str, int | None]
) -> list[dict[str, Any]]:
    """Find routers whose pruned footers count more messages accepted than ended, where the kept log has too few later
    ends to make up for it.

    By router: `strays`, ends in the kept log without an acceptance there; `ends`, when its kept log ends, absent if
    nothing is kept; `ttls_s`, the longest life of a message there, None where its log does not say. `open` in the
    result: at least this many messages have no end; `is_over`: the log goes on for longer than any of them could live.
    """
    found = []
    for log in evidence.logs:
        accepted, ended, max_t = _pruned_sums(evidence.seals, log)
        rest = accepted - ended - strays.get(log.router, 0)
        if rest <= 0:
            continue
        ttl_s, end_ns = ttls_s.get(log.router), ends.get(log.router)
        is_over = end_ns is None or (ttl_s is not None and max_t + ttl_s * 10**9 + GRACE_NS <= end_ns)
        found.append(
            {
                "router": log.router,
                "accepted": accepted,
                "ended": ended,
                "strays": strays.get(log.router, 0),
                "open": rest,
                "pruned_to": log.pruned_to,
                "is_over": is_over,
            }
        )
    return found


def _pruned_sums(seals: Iterable[Seal], log: Log) -> tuple[int, int, int]:
    """Return the messages accepted and ended by the footers that cover all up to `pruned_to`, each event once, and the
    latest time there. Return zeros if there are no such footers."""
    reached = {1: (0, 0, 0)}
    for seal in sorted(seals, key=lambda seal: (seal.first_seq, seal.last_seq, seal.path)):
        before = reached.get(seal.first_seq)
        if seal.router == log.router and not seal.is_kept and before is not None and seal.last_seq <= log.pruned_to:
            counts = dict(seal.counts)
            ended = sum(counts.get(event, 0) for event in ENDS)
            sums = before[0] + counts.get("accepted", 0), before[1] + ended, max(before[2], seal.max_t)
            reached.setdefault(seal.last_seq + 1, sums)
    return reached.get(log.pruned_to + 1, (0, 0, 0))


def unsent(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Count by router and neighbour the messages that the router attributes to the neighbour and that are missing from
    the neighbour's log, though it must hold them; give the first of them. Of multicasts, count only those in excess of
    the carriers in which they may have come."""
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pairs.setdefault((row["router"], row["peer"]), []).append(row)
    found = []
    for (router, peer), own in pairs.items():
        count = sum(row["count"] for row in own if row["kind"] == "unicast")
        rest = sum(row["count"] - row["carriers"] for row in own if row["kind"] != "unicast")
        first = min(own, key=lambda row: (row["kind"] != "unicast", row["first"]["seq"], row["first"]["i"]))["first"]
        if count + max(0, rest):
            said = {"router": router, "peer": peer, "count": count + max(0, rest)}
            found.append(said | {"seq": first["seq"], "id": first["id"]})
    return found
