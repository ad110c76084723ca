"""Say what the logs given do not show about subscribers that were left out (`presence_sql.UNJUDGED`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

NAMED_MAX = 20
"""Most keys of one log that are named."""
_CAUSES = {
    "config": "Who was left out of messages is not judged in the log of {router}{until}: "
    "no `config` line tells `clock_moves_s_max` {there}.",
    "history": "Who was left out of what another router brought and a service alone was given, as is history that it "
    "asked for, is not judged in the log of {router}{until}: no `config` line tells `history_open_max` {there}.",
    "away": "Whether those who had joined and were away were owed messages is not judged in the log of "
    "{router}{until}: no `config` line tells `groups_per_client_max` {there}.",
    "unmarked": "From event {seq} on, whether those who had joined and were away were owed messages is not judged in "
    "the log of {router}: that `config` line tells no `groups_per_client_max`.",
    "hole": "The log of {router} has a hole from event {seq} on: `left-out`, `not-left`, `not-away`, `not-full`, "
    "`not-crowded`, `not-too-large`, `refused-unwritten` and `other-time` are judged in it up to there alone, and "
    "`joined-there` and `no-history` are not.",
    "end": "The log of {router} has a hole behind its last event, from event {seq} on: "
    "`left-out`, `not-left`, `not-away`, `not-full`, `not-crowded`, `not-too-large`, `refused-unwritten`, "
    "`other-time`, `refused-there` and `joined-there` are judged in it up to there alone, and `no-history` is not.",
    "asked": "The log of {router} tells, first in event {seq}, that it asked other routers for messages as history: "
    "that these were owed to its pub/sub service alone rests on its own word, but for what the whole logs of these "
    "routers contradict (`no-history`).",
    "leave": "The log of {router} only counts some of those who left groups, first in event {seq}: whoever had joined "
    "before such a line is not judged to be left out from the start of that run on.",
    "rights": "From the event named, the log of {router} tells that the rights of these keys changed or that another "
    "key followed them: whether they are left out from there on is not judged: {peers}.",
}


def unjudged(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each log and cause. `rows`: those of `presence_sql.UNJUDGED`, with the router's key."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["router"], row["cause"]), []).append(row)
    for (router, cause), own in sorted(found.items()):
        seq = own[0]["seq"]
        peers = sorted(f"{row['peer']} ({row['seq']})" for row in own)
        more = [f"and {len(peers) - NAMED_MAX} more"] if len(peers) > NAMED_MAX else []
        yield _CAUSES[cause].format(
            router=router,
            seq=seq,
            until="" if seq is None else f" before event {seq}",
            there="in it" if seq is None else "before that",
            peers=", ".join([*peers[:NAMED_MAX], *more]),
        )
