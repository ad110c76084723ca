"""Judge messages that were handed to a router and are missing from the known part of its log.

The log of a running router ends before its neighbours' last handovers, because events that are not sealed yet are in no
file. Only if the sender's log goes on for a day after the handover should the receiver's log have held it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spark_analytics.judgement.lives import RESTORED

Row = Mapping[str, Any]

SEALED_MINUTES = 1440
"""Minutes after which a segment is sealed for certain: `log.segment_s` is an hour by default."""


class Unfollowed(NamedTuple):
    """A judgement of unknown handovers: its level, the log that lacks the messages and why, and the remedy."""

    level: str
    text: str
    remedy: str


def unfollowed(summary: Row, pair: Row) -> Unfollowed:
    """Judge a row of `custody` with `unknown` handovers."""
    taker = pair["recipient"]
    log = next((log for log in summary["logs"] if log["router"] == taker), {"whole": False, "pruned_to": 0})
    newest = f"Ask {taker} for its newest log, or name its home, and audit again."
    if any((file["router"], file["status"]) == (taker, "tail") for file in summary["files"]):
        newest = f"Its unsealed events were given too: give those of {taker} from a later time, and audit again."
    if not log["whole"]:
        lacks = [hole["why"] for hole in summary["holes"] if hole["router"] == taker]
        if lacks and all(why.endswith(RESTORED) for why in lacks):
            text = f"the log of {taker}, which was restored from a snapshot: the log of what it did since that is lost"
            return Unfollowed(
                "info", text, "Nothing can be given: no file holds it, unless the disk of before can be read."
            )
        text = f"what is known of the log of {taker}: it is not whole"
        return Unfollowed("info", text, f"Give the missing files of {taker} too, and audit again.")
    if log["pruned_to"]:
        text = f"the log of {taker}, which begins after (older events are pruned) or ends before"
        return Unfollowed("info", text, f"{newest} A copy from before it pruned holds the older ones.")
    ends = f"the log of {taker}, which ends before"
    if _is_long_ago(summary, pair):
        return Unfollowed("warning", f"{ends}: its end is missing or has not been given", newest)
    live = "what is not sealed yet is in no file, or its end is missing or has not been given"
    return Unfollowed("info", f"{ends}: {live}", newest)


def _is_long_ago(summary: Row, pair: Row) -> bool:
    """Whether the unknown handovers are more than left that queue in the last day of the log, so that some are older.

    False also if the queue is not in the summary.
    """
    step = summary["step_minutes"]
    queues = [queue for queue in summary["queues"] if queue["router"] == pair["router"]]
    own = [queue for queue in queues if queue["recipient"] == pair["recipient"]]
    last = max((row["window"] for queue in queues for row in queue["windows"]), default=0)
    lately = sum(
        row["ended"] for queue in own for row in queue["windows"] if row["window"] + step > last - SEALED_MINUTES
    )
    return bool(own) and pair["unknown"] > lately
