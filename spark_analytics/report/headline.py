"""The verdict of an audit in one sentence: the same on the terminal, on the page, and among the findings."""

from __future__ import annotations

from collections.abc import Sequence

from spark_analytics.judgement.door_sql import UNTURNED
from spark_analytics.judgement.lives import RESTORED

from .finding import many
from .reading import Row, rows, whole, words


def headline(summary: Row) -> str:
    """Return the verdict in one sentence, with a second one if the balance is right but something else is not."""
    bad = sum(1 for row in rows(summary, "findings") if row.get("level") == "bad")
    broken = sum(log.get("whole") is False and _is_doubtful(log) for log in rows(summary, "logs"))
    if broken:
        logs = f"The {'log' if broken == 1 else 'logs'} of {many(broken, 'router')}"
        return f"{logs} cannot be believed in all parts: what follows rests on the others. {balanced(summary)}"
    if bad and not whole(summary, "unaccounted") and not whole(summary, "residual"):
        return f"{_restored(summary)}{balanced(summary)} Yet {many(bad, 'finding')} below must not be ignored."
    return f"{_restored(summary)}{balanced(summary)}"


def _is_doubtful(log: Row) -> bool:
    """Whether a log has a problem other than that its router was restored from a snapshot, and said so."""
    return any(not text.endswith(RESTORED) for text in words(log, "problems"))


def _restored(summary: Row) -> str:
    """Return a sentence about the routers that were restored, with a space behind it; nothing if none was."""
    found = {str(hole.get("router")): str(hole.get("why")) for hole in _holes(summary, after_restore=True)}
    if len(found) > 1:
        lack = "what they did in between is not in their logs"
        return f"{many(len(found), 'router')} were restored from snapshots; {lack}. "
    return "".join(f"1 router was {why}. " for why in found.values())


def _holes(summary: Row, *, after_restore: bool) -> list[Row]:
    """Return the missing parts of logs: those before a restore, or all others."""
    return [hole for hole in rows(summary, "holes") if str(hole.get("why")).endswith(RESTORED) is after_restore]


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
    if _holes(summary, after_restore=False):
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


def _gone(summary: Row) -> int:
    """Return how many deliveries may still arrive by the logs, but not by the alarm of their own router: its store does
    not have them."""
    alarms = (row for row in rows(summary, "alarms") if row.get("alarm") == "unaccounted")
    return min(sum(whole(row, "number") for row in alarms), whole(summary, "pending"))


def _vanished(summary: Row) -> str:
    if gone := _gone(summary):
        are = "is" if gone == 1 else "are"
        return f"{gone:,} that must still wait {are} not in the store, as their own router says, and no other vanished"
    return "no other vanished" if _overdue(summary) else "none vanished"


def _of_services(services: Sequence[Row]) -> str:
    """Return one sentence about the messages that services owed to recipients of their own."""
    owed, lost = (sum(whole(row, name) for row in services) for name in ("owed", "unaccounted"))
    fate = f"{lost:,} of them vanished" if lost else "none of them vanished"
    return f"No router owed a delivery; services owed {many(owed, 'delivery')} to their own recipients, and {fate}."


def _ends(summary: Row) -> str:
    """Return `152 deliveries arrived, 10 ended undelivered for a stated reason, 33 may still arrive`."""
    ended = sum(whole(summary, name) for name in ("expired", "refused", "dropped", "evicted"))
    unborne = min(ended, sum(whole(row, "count") for row in rows(summary, "claims") if row.get("claim") == UNTURNED))
    arrived, overdue = whole(summary, "delivered") + whole(summary, "acked"), _overdue(summary)
    late = (
        "has no end, more than a day after its time"
        if overdue == 1
        else "have no end, more than a day after their time"
    )
    counts = (
        (arrived, "arrived"),
        (whole(summary, "unconfirmed"), "were sent once without asking for an answer"),
        (ended - unborne, "ended undelivered for a stated reason"),
        (unborne, "are said to have been refused by a router whose log does not bear it out"),
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
