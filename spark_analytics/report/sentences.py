"""An audit's findings in sentences: how bad each is, what it is, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from .conflict_sentences import (
    again,
    barred,
    claims,
    claims_apart,
    compared,
    early,
    overdue,
    pruned_open,
    two_histories,
    unknown_reasons,
    unsent,
    went_on,
)
from .file_sentences import (
    bad_files,
    disputed,
    forks,
    incomplete,
    no_log,
    other_problems,
    restore_denied,
    restored,
    rewritten,
    unlisted,
)
from .finding import LEVELS, ROWS, Finding, FindingKind, Row, event_of, grouped_by, many, ranked, say, utc
from .headline import balanced
from .unfollowed import unfollowed

EACH_MAX = 10
SOON_S = 86_400
NEARLY_EMPTY = 100
"""A queue that holds less than its limit divided by this is nearly empty."""
CLOCK_NS = 10**9
FLAPS_MIN = 100


OWN_ALARMS = {
    "unaccounted": (
        "bad",
        "deliveries{of} that must still wait by its log ({number:,}) are not in its store",
        "Keep its store and log as they are, and look whether its disk lost writes, or somebody changed its files.",
    ),
    "repeated": (
        "bad",
        "deliveries{of} that ended by its log ({number:,}) are still in its store, and will be handed over again",
        "Look whether the disk of its store lost writes, or somebody changed its files.",
    ),
    "queue-filling": (
        "warning",
        "the queue{of} is full within an hour, or is full",
        "Bring that recipient back or make it faster; a full queue refuses what is new.",
    ),
    "clock-doubted": ("warning", "its clock is doubted, and nothing expires", "`router clock` says there why. Set it."),
    "log-gap": (
        "warning",
        "events of its log ({number:,}) cannot be found",
        "Look whether its store or its log was damaged or put back.",
    ),
}
"""How bad an alarm of a router about itself is, what it says, and what to do."""
UNKNOWN_ALARM = ("warning", "it has raised the alarm {alarm}", "`router status` says there what to do.")


def verdict_of(findings: Iterable[Row]) -> str:
    """Return `bad` if any finding is, else `attention` if there is a warning, else `good`."""
    levels = {row["level"] for row in findings}
    return "bad" if "bad" in levels else "attention" if "warning" in levels else "good"


def sentences(summary: Row) -> list[Finding]:
    """Return the findings of a summary's tables, worst first; ten of each kind, and how many more there are."""
    found: list[Finding] = []
    for kind in KINDS:
        said = list(kind.rule(summary))
        found += said[:EACH_MAX]
        if len(said) > EACH_MAX:
            found.append({**said[EACH_MAX], "text": f"The same in {many(len(said) - EACH_MAX, 'more case')}."})
    if not any(row["level"] in ("bad", "warning") for row in found):
        found.append(_all_is_well(summary))
    return sorted(found, key=lambda row: LEVELS.index(row["level"]))


def _all_is_well(summary: Row) -> Finding:
    return say("good" if summary["owed"] else "info", balanced(summary))


def _most_first(rows: Iterable[Row], name: str) -> list[Row]:
    """Return the rows that have a count, greatest first; equal ones keep their order."""
    return sorted((row for row in rows if row[name]), key=lambda row: -row[name])


# -- what must not be -------------------------------------------------------------------------------------


def _residual(summary: Row) -> Iterator[Finding]:
    if left := summary["residual"]:
        more = f"{many(left, 'more delivery')} {'is' if left == 1 else 'are'}"
        yield say(
            "bad",
            f"The books do not balance: {more} owed than are in any state.",
            "This is a defect of the audit itself. Report it with the output of `router audit --json`.",
        )


def _unaccounted(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "unaccounted"):
        router = row["router"]
        example = next((f", for instance {one['id']}" for one in summary["lost"] if one["router"] == router), "")
        yield say(
            "bad",
            f"Lost without a trace: {many(row['unaccounted'], 'delivery')} owed by the router {router}. Its log is "
            "whole and the time is over, but it records no outcome of them.",
            f"Run `router why` at that router for the messages under `lost`{example}. Keep its store and log as they "
            "are: a router that loses silently has a defect.",
        )


def _services(summary: Row) -> Iterator[Finding]:
    for row in summary["services"]:
        of_it = f"the service {row['service']} of the router {row['router']}"
        pair = row["router"], row["service"]
        ends = [one for one in summary["service_ends"] if (one["router"], one["service"]) == pair]
        if row["unaccounted"]:
            lost = next(one for one in ends if one["state"] == "unaccounted")
            yield say(
                "bad",
                f"Lost without a trace: {many(row['unaccounted'], 'message')} that {of_it} owed to its recipients. "
                "The log is whole and their time is over, but it records no outcome of them.",
                f"Search the log for the service's message number {lost['number']}, owed to {lost['recipient']}. Keep "
                "the service's state and the log as they are: a service that loses silently has a defect.",
            )
        if row["doubled"]:
            yield say(
                "warning",
                f"{many(row['doubled'], 'message')} of {of_it} went to a recipient that had acknowledged it.",
                "Recipients must cope with duplicates, but these should not happen: look whether the service's state "
                "was put back to an older one.",
            )
        if row["owed"] and not row["unaccounted"]:
            counts: Counter[str] = Counter()
            for one in ends:
                counts[str(one["reason"])] += one["count"]
            why = f" ({ranked(counts)})" if counts else ""
            yield say(
                "info",
                f"Of {many(row['messages'], 'message')} of {of_it}, owed {row['owed']:,} times: {row['done']:,} read, "
                f"{row['ended']:,} ended otherwise{why}, {row['pending']:,} waiting, {row['unknown']:,} unknown, "
                "0 unaccounted for.",
            )


def alarms(summary: Row) -> Iterator[Finding]:
    """Yield what routers find wrong with themselves, and have not said to be over."""
    for row in summary.get("alarms", ()):
        level, text, remedy = OWN_ALARMS.get(row["alarm"], UNKNOWN_ALARM)
        said = text.format(
            alarm=row["alarm"], number=row["number"] or 0, of=f" for {row['peer']}" if row["peer"] else ""
        )
        since = f" since {utc(row['since_s'] * 10**9)}" if row["since_s"] else ""
        yield say(level, f"The router {row['router']} itself says{since}: {said}.", remedy)


def _broken(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["custody"], "broken"):
        pair = row["router"], row["recipient"]
        first = next((one for one in summary["broken"] if (one["router"], one["recipient"]) == pair), None)
        said = f": the first is {first['id']}, accepted in {event_of(first)}" if first else ""
        taker = row["recipient"]
        yield say(
            "bad",
            f"The router {row['router']} says that {taker} took {many(row['broken'], 'message')} over that the log of "
            f"{taker}, which is whole up to then, does not hold{said}. One of the two logs is wrong.",
            f"Look whether the store of {taker} was put back to an older state or lost a disk write; otherwise whoever "
            f"has the key of one of them wrote its log. `router why {first['id'] if first else 'ID'}` shows what each "
            "says. Send again what was lost.",
        )


def _contradictions(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "contradictions"):
        yield say(
            "bad",
            f"{many(row['contradictions'], 'delivery')} of the router {row['router']} ended in two different ways; "
            "each counts under the first of them.",
            "The router has a defect, or somebody who has its key wrote the log. Compare with its neighbours' logs.",
        )


# -- what somebody should look at -------------------------------------------------------------------------


def _ended_badly(summary: Row) -> Iterator[Finding]:
    remedies = {
        "dropped": "Reason `left`: the recipient left the group or was removed. Reason `store-damaged`: the disk "
        "changed what was stored; replace it.",
        "evicted": "A queue was full and gave way. Bring its recipient back, or raise the limits of queues.",
    }
    reasons = _reasons(summary)
    for event, remedy in remedies.items():
        for row in _most_first(summary["by_router"], event):
            why = _why(reasons, event, row)
            yield say("warning", f"The router {row['router']} {event} {many(row[event], 'delivery')}{why}.", remedy)


Reasons = dict[tuple[str, str], Counter[str]]


def _reasons(summary: Row) -> Reasons:
    """Return how many messages ended for which reason after they were accepted, by event and router."""
    found: Reasons = {}
    for one in summary["reasons"]:
        if not one["at_door"]:
            found.setdefault((one["event"], one["router"]), Counter())[str(one["reason"])] += one["count"]
    return found


def _why(reasons: Reasons, event: str, row: Row) -> str:
    """Return the reasons of an event; they are counted over the whole log, also outside the time asked for."""
    counts = reasons.get((event, row["router"]), Counter[str]())
    whole = "" if counts.total() == row[event] else "in all of its log: "
    return f" ({whole}{ranked(counts)})" if counts else ""


def _duplicates(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "duplicates"):
        yield say(
            "warning",
            f"The router {row['router']} delivered {many(row['duplicates'], 'message')} once more than it should.",
            "Apps must cope with duplicates, but they should not happen: look into its index of known messages, and "
            "whether its store was put back to an older state.",
        )


def _future(summary: Row) -> Iterator[Finding]:
    for row in summary["future"]:
        yield say(
            "warning",
            f"The router {row['router']} wrote {many(row['lines'], 'line')} from the future: its clock went up to "
            f"{utc(row['latest_t'])}, and the audit's now is {summary['as_of']}. These lines count as "
            "written at the audit's now, and the watermark ignores them.",
            "Set that node's clock, and keep it set by NTP. If the audit was asked for an earlier now (`--as-of`), "
            "these lines are simply later.",
        )


def _clocks(summary: Row) -> Iterator[Finding]:
    said: set[tuple[str, str]] = set()
    for row in summary["clocks"]:
        if (row["recipient"], row["router"]) in said:
            continue  # The finding for the other direction says it.
        low, high = row["lower_ns"], row["upper_ns"]
        ahead = low if low is not None and low > CLOCK_NS else None
        behind = -high if high is not None and high < -CLOCK_NS else None
        if (ahead or behind) is None:
            continue
        if low is not None and high is not None and low > high:
            moved = f"{(low - high) // 10**6 / 1000:,.3f} s" if low - high >= 10**6 else f"{low - high} ns"
            text = f"contradict each other: their difference changed by at least {moved}, so one of them was set "
            text += f"meanwhile ({_clock_steps(summary, row)})"
        else:
            seconds = (ahead or behind or 0) // 10**9
            text = f"are apart: the latter is at least {seconds:,} s {'ahead' if ahead else 'behind'}"
        said.add((row["router"], row["recipient"]))
        yield say(
            "warning",
            f"The clocks of the routers {row['router']} and {row['recipient']} {text}.",
            "Keep both set by NTP; expiry and the order of events across the two depend on it.",
        )


def _pairs(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Put the rows of each two routers together, in which order ever."""
    found: dict[frozenset[str], list[Row]] = {}
    for row in rows:
        found.setdefault(frozenset((row["router"], row["recipient"])), []).append(row)
    return found.values()


def _disputed(summary: Row) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    for row in summary["reasons"]:
        if row["reason"] == "clock-doubted":
            counts[row["router"]] += row["count"]
    for router, count in sorted(counts.items()):
        steps = next(
            (
                f"; its log tells of it: `clock_step`, {many(row['lines'], 'time')}"
                for row in summary["events"]
                if (row["router"], row["event"]) == (router, "clock_step")
            ),
            "",
        )
        yield say(
            "warning",
            f"At the router {router} {many(count, 'message')} had to be sent again because clocks disagree "
            f"(clock-doubted){steps}.",
            "Its own clock is wrong, or a neighbour's: `router clock` and `router peers` say there which. Set it.",
        )


def _clock_steps(summary: Row, pair: Row) -> str:
    """Return the clock jumps that the two logs record."""
    steps = {row["router"]: row["lines"] for row in summary["events"] if row["event"] == "clock_step"}
    told = [
        f"the log of {one} tells of it: `clock_step`, {many(steps[one], 'time')}"
        for one in (pair["router"], pair["recipient"])
        if one in steps
    ]
    return "; ".join(told) or "neither log tells of a `clock_step`"


def fills_within(full_s: float | None, waiting: int, limit: int | None, most_s: float) -> bool:
    """Whether a queue will be full within that time; the last rate says nothing about a queue that is nearly empty."""
    return full_s is not None and full_s <= most_s and waiting * NEARLY_EMPTY >= (limit or 0)


def _filling(summary: Row) -> Iterator[Finding]:
    for row in summary["queues"]:
        full, due = row["full_in_s"], row["oldest_due_s"]
        if full is None or not fills_within(full, row["open"], row["limit"], SOON_S):
            continue
        then = f"full {_ahead(full)} later at the rate of then" if full else "full"
        soon = f"expires in {_ahead(due)}" if due else "is past its time"
        oldest = "" if due is None else f"; its oldest message {soon}"
        wait = "waits" if row["open"] == 1 else "wait"
        yield say(
            "warning",
            f"Where the log of the router {row['router']} ends, the queue of {row['recipient']} is {then}: "
            f"{row['open']:,} of {row['limit']:,} messages {wait}{oldest}.",
            "Bring that recipient back or make it faster before then; a full queue refuses what is new.",
        )


def _ahead(seconds: int) -> str:
    return many(seconds // 60, "minute") if seconds < 7200 else many(seconds // 3600, "hour")


# -- what is worth knowing --------------------------------------------------------------------------------


def _ended_otherwise(summary: Row) -> Iterator[Finding]:
    reasons = _reasons(summary)
    for event in ("expired", "refused", "unconfirmed"):
        for row in _most_first(summary["by_router"], event):
            why = _why(reasons, event, row)
            yield say("info", f"{many(row[event], 'delivery')} of the router {row['router']} ended as {event}{why}.")


def _strays(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "strays"):
        yield say(
            "info",
            f"The log of the router {row['router']} tells of {many(row['strays'], 'end')} of deliveries whose "
            "acceptance is not in these logs (pruned, missing, or before the time asked for); none of it counts.",
        )


def _turned_away(summary: Row) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    for row in summary["reasons"]:
        if row["at_door"] and row["count"]:
            counts[str(row["reason"])] += row["count"]
    if counts:
        were = "was" if counts.total() == 1 else "were"
        yield say("info", f"{many(counts.total(), 'message')} {were} refused on arrival: {ranked(counts)}.")


def _flaps(summary: Row) -> Iterator[Finding]:
    for row in summary["flaps"]:
        if row["changes"] >= FLAPS_MIN:
            yield say(
                "info",
                f"Routes and links of {row['subject']} at the router {row['router']} changed {row['changes']:,} times.",
            )


def _not_followed(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["custody"], "unknown"):
        said = unfollowed(summary, row)
        handed = f"{many(row['unknown'], 'message')} that {row['router']} handed to {row['recipient']} (acknowledged)"
        are = "is" if row["unknown"] == 1 else "are"
        yield say(said.level, f"{handed} {are} not in {said.text}.", said.remedy)


def _quality(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["quality"], "count"):
        where = f" at the router {row['router']}" if row["router"] else ""
        yield say("info", f"Quality of data: {row['check']}, {row['count']:,} times{where}.")


_OF_ROUTER = grouped_by("router")
KINDS: tuple[FindingKind, ...] = (
    FindingKind("residual", _residual, counts=("residual",), is_alarm=False),
    FindingKind("unaccounted", _unaccounted, "by_router", counts=("unaccounted",), examples="lost", beside=("lost",)),
    FindingKind(
        "services",
        _services,
        "services",
        "service",
        counts=("unaccounted", "doubled", "owed"),
        beside=("service_ends",),
    ),
    FindingKind("alarm", alarms, "alarms", "peer", "alarm", ("number",)),
    FindingKind("broken", _broken, "custody", "recipient", counts=("broken",), examples="broken", beside=("broken",)),
    FindingKind("contradictions", _contradictions, "by_router", counts=("contradictions",)),
    FindingKind("unsent", unsent, "unsent", "peer", counts=("count",)),
    FindingKind("again", again, "again", counts=("count",)),
    FindingKind("early", early, "early", counts=("count",)),
    FindingKind("claims", claims, "claims", "peer", "claim", ("count",), claims_apart),
    FindingKind("unknown-reason", unknown_reasons, "reasons", counts=("count",), groups=_OF_ROUTER, is_sum=True),
    FindingKind("two-histories", two_histories, "compared", is_alarm=False),
    FindingKind("bad-files", bad_files, "files", counts=(ROWS,), groups=_OF_ROUTER),
    FindingKind("unlisted", unlisted, is_alarm=False),
    FindingKind("fork", forks, "files", groups=_OF_ROUTER),
    FindingKind("rewritten", rewritten, "holes", groups=_OF_ROUTER),
    FindingKind("head-disputed", disputed, "logs"),
    FindingKind("restore-denied", restore_denied, "holes", groups=_OF_ROUTER),
    FindingKind("restored", restored, "holes", groups=_OF_ROUTER, beside=("by_router", "files")),
    FindingKind("no-log", no_log, is_alarm=False),
    FindingKind("incomplete", incomplete, "holes", groups=_OF_ROUTER, beside=("by_router", "logs")),
    FindingKind("overdue", overdue, "overdue", counts=("count",)),
    FindingKind("pruned-open", pruned_open, "pruned_open", counts=("open",)),
    FindingKind("ended-badly", _ended_badly, "by_router", counts=("dropped", "evicted"), beside=("reasons",)),
    FindingKind("duplicates", _duplicates, "by_router", counts=("duplicates",)),
    FindingKind("barred", barred, "barred", "peer"),
    FindingKind("future", _future, "future", counts=("lines",)),
    FindingKind("clocks", _clocks, "clocks", "recipient", groups=_pairs),
    FindingKind("clock-doubted", _disputed, "reasons", counts=("count",), groups=_OF_ROUTER, is_sum=True),
    FindingKind("filling", _filling, "queues", "recipient", counts=("open",)),
    FindingKind("problems", other_problems, is_alarm=False),
    FindingKind(
        "ended-otherwise",
        _ended_otherwise,
        "by_router",
        counts=("expired", "refused", "unconfirmed"),
        beside=("reasons",),
        is_alarm=False,
    ),
    FindingKind("went-on", went_on, "went_on", "recipient", counts=("count",), is_alarm=False),
    FindingKind("strays", _strays, "by_router", counts=("strays",), is_alarm=False),
    FindingKind(
        "turned-away",
        _turned_away,
        "reasons",
        counts=("count",),
        groups=grouped_by(),
        is_sum=True,
        is_alarm=False,
        router="",
    ),
    FindingKind("flaps", _flaps, "flaps", "subject", counts=("changes",), is_alarm=False),
    FindingKind("not-followed", _not_followed, "custody", "recipient", counts=("unknown",)),
    FindingKind("quality", _quality, "quality", counts=("count",), is_alarm=False),
    FindingKind(
        "compared",
        compared,
        "compared",
        counts=(ROWS,),
        groups=grouped_by("audit", "result"),
        is_alarm=False,
        router="",
    ),
)
"""All findings, in the order in which those of one level are told."""
