"""What an audit found, in sentences: how bad it is, what it is, and what to do.

Levels: `bad` is what must not be (a loss, a broken promise, evidence that cannot be believed), `warning` what somebody
should look at (unknown, duplicates, drops), `info` what is worth knowing, `good` that all is well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from .chain import TWO_HISTORIES, events
from .evidence import BEGUN_ANEW, REWRITTEN
from .log_files import UNREADABLE
from .tails import TAKEN_AWAY
from .unfollowed import unfollowed

LEVELS = ("bad", "warning", "info", "good")
EACH_MAX = 10
SOON_S = 86_400
CLOCK_NS = 10**9
FLAPS_MIN = 100
_AUDIT_THE_OLDER = " If its log began anew, audit its older log, if there is a copy, for itself."

Row = Mapping[str, Any]
Finding = dict[str, str]


def verdict_of(findings: Iterable[Row]) -> str:
    """`bad` if anything is, else `attention` if there is a warning, else `good`."""
    levels = {row["level"] for row in findings}
    return "bad" if "bad" in levels else "attention" if "warning" in levels else "good"


def sentences(summary: Row) -> list[Finding]:
    """What the tables of a summary say, the worst first; of each kind the first ten, and how many more."""
    found: list[Finding] = []
    for rule in _RULES:
        said = list(rule(summary))
        found += said[:EACH_MAX]
        if len(said) > EACH_MAX:
            found.append({**said[EACH_MAX], "text": f"The same in {len(said) - EACH_MAX} more cases."})
    if not any(row["level"] in ("bad", "warning") for row in found):
        found.append(_all_is_well(summary))
    return sorted(found, key=lambda row: LEVELS.index(row["level"]))


def _all_is_well(summary: Row) -> Finding:
    if not summary["owed"]:
        return _say("info", "No accepted message is owed to anybody in these logs and this time: nothing to judge.")
    also = f", {summary['pending']:,} of them still under way" if summary["pending"] else ""
    behind = sum(row["unknown"] for row in summary["custody"])
    beyond = f"; what became of {behind:,} of them behind it, the next router's log, as given, does not tell"
    said = f"Each of the {_many(summary['owed'], 'delivery')} owed is accounted for{also}{beyond if behind else ''}."
    return _say("good", said)


def _say(level: str, text: str, remedy: str = "") -> Finding:
    return {"level": level, "text": text, "remedy": remedy}


def _many(count: int, noun: str) -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"


def utc(ns: int) -> str:
    """An instant as text: `2026-03-12T17:48:20+00:00`."""
    return datetime.fromtimestamp(ns // 10**9, UTC).isoformat()


def _most_first(rows: Iterable[Row], name: str) -> list[Row]:
    """Those that have any, the most first, else in their order."""
    return sorted((row for row in rows if row[name]), key=lambda row: -row[name])


# -- what must not be -------------------------------------------------------------------------------------


def _residual(summary: Row) -> Iterator[Finding]:
    if left := summary["residual"]:
        yield _say(
            "bad",
            f"The books do not balance: {left:,} more deliveries are owed than are in any state.",
            "This is a defect of the audit itself. Report it with the output of `router audit --json`.",
        )


def _unaccounted(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "unaccounted"):
        router = row["router"]
        example = next((f", for instance {one['id']}" for one in summary["lost"] if one["router"] == router), "")
        yield _say(
            "bad",
            f"Lost without a trace: {_many(row['unaccounted'], 'delivery')} owed by the router {router}. Its log is "
            "whole and the time is over, but it tells no end of them.",
            f"Run `router why` at that router for the messages under `lost`{example}. Keep its store and log as they "
            "are: a router that loses silently has a defect.",
        )


def _broken(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["custody"], "broken"):
        pair = row["router"], row["recipient"]
        example = next((one["id"] for one in summary["broken"] if (one["router"], one["recipient"]) == pair), "")
        yield _say(
            "bad",
            f"The router {row['recipient']} took {_many(row['broken'], 'message')} over from {row['router']}, but its "
            "log, which is whole up to then, does not hold them.",
            f"Look whether its store was put back to an older state or lost a disk write (first message: {example}). "
            "Send again what was lost.",
        )


def _contradictions(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "contradictions"):
        yield _say(
            "bad",
            f"{_many(row['contradictions'], 'delivery')} of the router {row['router']} ended in two different ways; "
            "each counts under the first of them.",
            "The router has a defect, or somebody who has its key wrote the log. Compare with its neighbours' logs.",
        )


def _files(summary: Row) -> Iterator[Finding]:
    bad: dict[tuple[str, str], list[str]] = {}
    for file in summary["files"]:
        if file["status"] == "bad":
            why = _why_bad([text for text in summary["problems"] if text.startswith(f"{file['path']}:")])
            bad.setdefault((file["router"] or "", why), []).append(file["path"])
    for (router, why), paths in bad.items():
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        whose = f"of the log of the router {router}" if router else "of a log of nobody knows whom"
        what, remedy = _BAD[why]
        yield _say(
            "bad",
            f"{_many(len(paths), 'file')} {whose} cannot {what}: {', '.join(paths[:3])}{more}. Nothing in them counts.",
            f"`problems` says file, line and what is wrong. {remedy}",
        )


_BAD = {
    "unread": ("be read", "Give the audit the right to read them, or a disk that can, and audit again."),
    "unlike": (
        "be believed",
        "Nobody signed these events, and the router signed others. If two nodes use its key, or a copy of its home "
        "went on, stop one and give it a key of its own; else put back the segments that are missing or were changed.",
    ),
    "changed": ("be believed", "Put back an unharmed copy, and find out what changed them."),
}
"""What bad files cannot do, and what to do about it."""


def _why_bad(texts: Iterable[str]) -> str:
    if any(f": {UNREADABLE}" in text for text in texts):
        return "unread"
    return "unlike" if any(text.endswith((TWO_HISTORIES, TAKEN_AWAY)) for text in texts) else "changed"


def _forks(summary: Row) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for file in summary["files"]:
        if file["status"] == "fork":
            first[file["router"]] = min(file["first_seq"], first.get(file["router"], file["first_seq"]))
    copied = "two nodes use its key, or a log was copied and both went on, or it was rewritten"
    for router, seq in first.items():
        causes = (
            f", as where a node's store is deleted and its log begins anew under the same key; or {copied}"
            if seq == 1
            else f": {copied}, or {BEGUN_ANEW}"
        )
        yield _say(
            "bad",
            f"The log of the router {router} has two histories from event {seq} on{causes}. Nothing counts from there.",
            "If two nodes run, stop one and give it a key of its own. Then audit each history for itself: a log that "
            "began anew and the older one are no longer one log.",
        )


def _rewritten(summary: Row) -> Iterator[Finding]:
    for hole in summary["holes"]:
        if hole["why"].endswith(REWRITTEN):
            yield _say(
                "bad",
                f"The log of the router {hole['router']} is not what its neighbours saw: {hole['why']} "
                f"({events(hole['first_seq'], hole['last_seq'])}).",
                "Compare it with a copy from before. If the node's store was deleted, its log began anew at event 1, "
                "and neighbours remember the older one: audit that, if there is a copy, for itself. Otherwise whoever "
                "has the router's key can do this; if it was not you, make a new key.",
            )


# -- what somebody should look at -------------------------------------------------------------------------


def _no_log(summary: Row) -> Iterator[Finding]:
    if not summary["logs"]:
        yield _say("warning", "No router's log is among the files: there is nothing to judge.", "Name its directory.")


def _unknown(summary: Row) -> Iterator[Finding]:
    unknown = {row["router"]: row["unknown"] for row in summary["by_router"]}
    for log in summary["logs"]:
        holes = [hole for hole in summary["holes"] if hole["router"] == log["router"]]
        if holes:
            count, more = unknown.get(log["router"], 0), len(holes) - 1
            spans = f"{events(holes[0]['first_seq'], holes[0]['last_seq'])} ({holes[0]['why']})"
            spans += f" and {_many(more, 'more span')}" if more else ""
            judged = f"{_many(count, 'delivery')} cannot be judged" if count else "no other delivery depends on them"
            judged += ", and what was accepted in them is not counted at all"
            anew = _AUDIT_THE_OLDER if any(hole["why"].endswith(BEGUN_ANEW) for hole in holes) else ""
            yield _say(
                "warning",
                f"The log of the router {log['router']} is not whole: it lacks {spans}; {judged}.",
                f"Give the missing files too (or a copy of them) and audit again.{anew}",
            )


def _ended_badly(summary: Row) -> Iterator[Finding]:
    remedies = {
        "dropped": "The reasons say why: `left` is a recipient that left what it had joined; `store-damaged` is a disk "
        "that changed what was stored: replace it.",
        "evicted": "A queue was full and gave way. Bring its recipient back, or raise the limits of queues.",
    }
    for event, remedy in remedies.items():
        for row in _most_first(summary["by_router"], event):
            why = _reasons(summary, event, row)
            yield _say("warning", f"The router {row['router']} {event} {_many(row[event], 'delivery')}{why}.", remedy)


def _reasons(summary: Row, event: str, row: Row) -> str:
    """The log's lines count for all of it, also for what was accepted at another time than was asked for."""
    counts: Counter[str] = Counter()
    for one in summary["reasons"]:
        if (one["event"], one["router"], one["at_door"]) == (event, row["router"], False):
            counts[str(one["reason"])] += one["count"]
    whole = "" if counts.total() == row[event] else "in all of its log: "
    return f" ({whole}{_ranked(counts)})" if counts else ""


def _ranked(counts: Mapping[str, int]) -> str:
    """`ttl-expired 7,000, left 2`."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _duplicates(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "duplicates"):
        yield _say(
            "warning",
            f"The router {row['router']} delivered {_many(row['duplicates'], 'message')} once more than it should.",
            "Apps must bear it, but it should not be: look into its index of known messages, and whether its store was "
            "put back to an older state.",
        )


def _future(summary: Row) -> Iterator[Finding]:
    for row in summary["future"]:
        yield _say(
            "warning",
            f"The router {row['router']} wrote {_many(row['lines'], 'line')} from the future: its clock went up to "
            f"{utc(row['latest_t'])}, and the audit's now is {summary['as_of']}. That counts as written then, and no "
            "watermark follows it.",
            "Set that node's clock, and let it be kept by NTP. If the audit was asked for an earlier now (`--as-of`), "
            "these lines are simply later.",
        )


def _clocks(summary: Row) -> Iterator[Finding]:
    said: set[tuple[str, str]] = set()
    for row in summary["clocks"]:
        if (row["recipient"], row["router"]) in said:
            continue  # It was said the other way round.
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
        yield _say(
            "warning", f"The clocks of the routers {row['router']} and {row['recipient']} {text}.",
            "Let both be kept by NTP; expiry and the order of events across the two depend on it.",
        )  # fmt: skip


def _clock_steps(summary: Row, pair: Row) -> str:
    """What their own logs say of clocks that jumped."""
    steps = {row["router"]: row["lines"] for row in summary["events"] if row["event"] == "clock_step"}
    told = [
        f"the log of {one} tells of it: `clock_step`, {_many(steps[one], 'time')}"
        for one in (pair["router"], pair["recipient"])
        if one in steps
    ]
    return "; ".join(told) or "neither log tells of a `clock_step`"


def _filling(summary: Row) -> Iterator[Finding]:
    for row in summary["queues"]:
        full, due = row["full_in_s"], row["oldest_due_s"]
        if full is None or full > SOON_S:
            continue
        then = f"full {_many(full // 60, 'minute')} later at the rate of then" if full else "full"
        soon = f"expires in {_many(due // 60, 'minute')}" if due else "is past its time"
        oldest = "" if due is None else f"; its oldest message {soon}"
        yield _say(
            "warning",
            f"Where the log of the router {row['router']} ends, the queue of {row['recipient']} is {then}: "
            f"{row['open']:,} of {row['limit']:,} messages wait{oldest}.",
            "Bring that recipient back or make it faster before then; a full queue refuses what is new.",
        )


def _other_problems(summary: Row) -> Iterator[Finding]:
    explained = {file["path"] for file in summary["files"] if file["status"] in ("bad", "fork")}
    rest = [text for text in summary["problems"] if not any(text.startswith(f"{path}:") for path in explained)]
    rest = [text for text in rest if not text.endswith(REWRITTEN)]
    if rest:
        more = f" (and {len(rest) - 1} more)" if len(rest) > 1 else ""
        yield _say("warning", f"Something about the files: {rest[0]}{more}.", "`problems` lists what it is and where.")


# -- what is worth knowing --------------------------------------------------------------------------------


def _ended_otherwise(summary: Row) -> Iterator[Finding]:
    for event in ("expired", "refused", "unconfirmed"):
        for row in _most_first(summary["by_router"], event):
            why = _reasons(summary, event, row)
            yield _say("info", f"{_many(row[event], 'delivery')} of the router {row['router']} ended as {event}{why}.")


def _strays(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["by_router"], "strays"):
        yield _say(
            "info",
            f"The log of the router {row['router']} tells of {_many(row['strays'], 'end')} of deliveries whose "
            "acceptance is not in these logs (pruned, missing, or before the time asked for); none of it counts.",
        )


def _turned_away(summary: Row) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    for row in summary["reasons"]:
        if row["at_door"] and row["count"]:
            counts[str(row["reason"])] += row["count"]
    if counts:
        yield _say("info", f"{_many(counts.total(), 'message')} came no further than the door: {_ranked(counts)}.")


def _flaps(summary: Row) -> Iterator[Finding]:
    for row in summary["flaps"]:
        if row["changes"] >= FLAPS_MIN:
            yield _say(
                "info",
                f"Routes and links of {row['subject']} at the router {row['router']} changed {row['changes']:,} times.",
            )


def _not_followed(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["custody"], "unknown"):
        said = unfollowed(summary, row)
        handed = f"{_many(row['unknown'], 'message')} that {row['router']} handed to {row['recipient']} (acknowledged)"
        are = "is" if row["unknown"] == 1 else "are"
        yield _say(said.level, f"{handed} {are} not in {said.text}.", said.remedy)


def _quality(summary: Row) -> Iterator[Finding]:
    for row in _most_first(summary["quality"], "count"):
        where = f" at the router {row['router']}" if row["router"] else ""
        yield _say("info", f"Quality of data: {row['check']}, {row['count']:,} times{where}.")


_RULES: tuple[Callable[[Row], Iterator[Finding]], ...] = (
    _residual, _unaccounted, _broken, _contradictions, _files, _forks, _rewritten,
    _no_log, _unknown, _ended_badly, _duplicates, _future, _clocks, _filling, _other_problems,
    _ended_otherwise, _strays, _turned_away, _flaps, _not_followed, _quality,
)  # fmt: skip
