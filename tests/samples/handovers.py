"""Events of a service that owes messages to consumers, and what both engines of the audit make of them."""

from __future__ import annotations

from samples.audit_logs import LATE, SECOND, START

SOON, LATER = START // SECOND + 60, START // SECOND + 100 * LATE
"""When messages are due: before the log ends, and after."""


def said(handover: str, recipients: str = "", numbers: str = "", due: str = "") -> dict[str, str]:
    """Return the fields of an event: owed to several recipients, else about one; "" names none."""
    name = "recipients" if handover == "owed" else "recipient"
    named = {name: recipients, "each_number": numbers, "each_due": due}
    return {"service": "dmq", "handover": handover, **{key: value for key, value in named.items() if value}}


EVENTS: list[tuple[dict[str, str], str | None]] = [
    (said("owed", "first,second", "1,2,3", f"{LATER},{LATER},{SOON}"), None),
    (said("done", "first", "1,3"), None),
    (said("done", "second", "1"), None),
    (said("done", "second", "1"), None),
    (said("ended", "first", "2"), "dmq:set-aside"),
    (said("ended", "", "3"), "dmq:expired"),
    (said("owed", "third", "4,5", f"{LATER},{SOON}"), None),
    (said("done", "third", "5"), None),
    (said("ended", "third"), "dmq:consumer-gone"),
    (said("owed", "first", "6,7", f"{SOON},{LATER}"), None),
    (said("ended", "first", "7"), "dmq:set-aside"),
    (said("owed", "first", "7", f"{LATER}"), None),
    (said("owed", "", "8", f"{SOON}"), None),
]
STATES: dict[tuple[int, str], tuple[str, int, str | None]] = {
    (1, "first"): ("done", 1, None),
    (1, "second"): ("done", 2, None),
    (2, "first"): ("ended", 0, "dmq:set-aside"),
    (2, "second"): ("pending", 0, None),
    (3, "first"): ("done", 1, "dmq:expired"),
    (3, "second"): ("ended", 0, "dmq:expired"),
    (4, "third"): ("ended", 0, "dmq:consumer-gone"),
    (5, "third"): ("done", 1, "dmq:consumer-gone"),
    (6, "first"): ("unaccounted", 0, None),
    (7, "first"): ("pending", 0, None),  # owed again after it was set aside
}
"""State, times done and reason by number and recipient; nobody is owed the eighth."""
SUMS = {
    "service": "dmq", "messages": 8, "owed": 10, "done": 4, "ended": 3, "pending": 2, "unknown": 0, "unaccounted": 1,
    "doubled": 1,
}  # fmt: skip
