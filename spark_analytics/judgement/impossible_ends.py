"""Ends that no router writes of a message that it has accepted, by their event and reason.

A message expires for its own time, is dropped where its recipient left or its bytes were damaged, and is never
evicted. For want of room, of rate or of a clock a router refuses what it is brought, before it accepts it; what a
neighbour or an app refuses for these reasons is tried again (`deferred`). Only a recipient whose queue is full is left
out. Reasons of services, and those that later versions may have, are not judged here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

CLAIM = "no-such-end"
ENDED_FOR = {
    "expired": ("ttl-expired", "expiry-passed", "next-away"),
    "dropped": ("left", "store-damaged"),
    "evicted": (),
}
"""By event: the reasons for which it ends a message. Those of *refused* are all but `NEVER_REFUSED`."""
NEVER_REFUSED = (
    "rate-limited", "queue-full-node", "index-full", "disk-full", "connect-failed", "connect-timeout", "shutdown",
    "internal", "clock-doubted", "copied",
)  # fmt: skip
"""Reasons for which a message is refused at the door alone, or tried again."""
End = tuple[str, str, str]
"""A router's key, an event and a reason."""


def impossible(tallied: Iterable[Mapping[str, Any]], known: Collection[str]) -> list[End]:
    """Return the ends that no router writes. `tallied`: rows `router`, `event`, `reason`, `at_door` of an audit;
    `known`: the words that all routers have."""
    told = {
        (row["router"], row["event"], row["reason"])
        for row in tallied
        if not row["at_door"] and row["reason"] in known and _is_impossible(row["event"], row["reason"])
    }
    return sorted(told)


def _is_impossible(event: str, reason: str) -> bool:
    if event == "refused":
        return reason in NEVER_REFUSED
    return event in ENDED_FOR and reason not in ENDED_FOR[event]
