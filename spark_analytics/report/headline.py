"""The verdict of an audit in one sentence: the same on the terminal, on the page, and among the findings."""

from __future__ import annotations

from collections.abc import Sequence

from .finding import many
from .reading import Row, rows, whole


def headline(summary: Row) -> str:
    """Return the verdict in one sentence, with a second one if the balance is right but something else is not."""
    bad = sum(1 for row in rows(summary, "findings") if row.get("level") == "bad")
    broken = sum(1 for log in rows(summary, "logs") if log.get("whole") is False and log.get("problems"))
    if broken:
        logs = f"The {'log' if broken == 1 else 'logs'} of {many(broken, 'router')}"
        return f"{logs} cannot be believed in all parts: what follows rests on the others. {balanced(summary)}"
    if bad and not whole(summary, "unaccounted") and not whole(summary, "residual"):
        return f"{balanced(summary)} Yet {many(bad, 'finding')} below must not be ignored."
    return balanced(summary)


def balanced(summary: Row) -> str:
    """Return one sentence about the fates of all deliveries owed."""
    owed, lost, unknown = (whole(summary, name) for name in ("owed", "unaccounted", "unknown"))
    if whole(summary, "residual"):
        return f"The books do not balance: {whole(summary, 'residual'):,} deliveries are in no state at all."
    if lost:
        also = f" Another {unknown:,} cannot be judged." if unknown else ""
        return f"{many(lost, 'delivery')} of {owed:,} {'is' if lost == 1 else 'are'} lost without a trace.{also}"
    if unknown:
        return (
            f"No loss was found, but {unknown:,} of {owed:,} deliveries cannot be judged: parts of the "
            "logs are missing, and what was accepted in them is not counted."
        )
    if rows(summary, "holes"):
        return "No loss was found, but parts of the logs are missing: what was accepted in them is not counted."
    if not owed and any(whole(row, "owed") for row in rows(summary, "services")):
        return _of_services(rows(summary, "services"))
    if not owed:
        return "There is nothing to judge: the logs name no delivery that was owed."
    if behind := sum(whole(row, "unknown") for row in rows(summary, "custody")):
        return (
            f"{_ends(summary)}; {_vanished(summary)} here. What became of {behind:,} of them behind the next router is "
            "not known: its log, as given, does not tell."
        )
    followed = sum(whole(row, "acked") for row in rows(summary, "custody"))
    where = "" if whole(summary, "acked") <= followed else " at these routers"
    return f"{_ends(summary)}; {_vanished(summary)}{where}."


def _overdue(summary: Row) -> int:
    """Return how many deliveries have no end more than a day after their time."""
    return sum(whole(row, "count") for row in rows(summary, "overdue"))


def _vanished(summary: Row) -> str:
    return "no other vanished" if _overdue(summary) else "none vanished"


def _of_services(services: Sequence[Row]) -> str:
    """Return one sentence about the messages that services owed to recipients of their own."""
    owed, lost = (sum(whole(row, name) for row in services) for name in ("owed", "unaccounted"))
    fate = f"{lost:,} of them vanished" if lost else "none of them vanished"
    return f"No router owed a delivery; services owed {many(owed, 'delivery')} to their own recipients, and {fate}."


def _ends(summary: Row) -> str:
    """Return `152 deliveries arrived, 10 ended undelivered for a stated reason, 33 may still arrive`."""
    ended = sum(whole(summary, name) for name in ("expired", "refused", "dropped", "evicted"))
    arrived, overdue = whole(summary, "delivered") + whole(summary, "acked"), _overdue(summary)
    late = (
        "has no end, more than a day after its time"
        if overdue == 1
        else "have no end, more than a day after their time"
    )
    counts = (
        (arrived, "arrived"),
        (whole(summary, "unconfirmed"), "were sent to neighbours that do not confirm"),
        (ended, "ended undelivered for a stated reason"),
        (overdue, late),
        (whole(summary, "pending") - overdue, "may still arrive"),
    )
    ends = [(count, what) for count, what in counts if count > 0]
    if not ends:
        return "The summary names no outcome of any delivery"
    (first, what), *others = ends
    said = (
        f"{many(first, 'delivery')} {what}",
        *(f"{count:,} {what}" for count, what in others),
    )
    return ", ".join(said)
