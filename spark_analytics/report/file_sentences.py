"""Sentences about what an audit found in the logs' files: damage, two histories, holes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_analytics.judgement.chain import TWO_HISTORIES, events
from spark_analytics.judgement.evidence import BEGUN_ANEW, DISPUTED, LIES, REWRITTEN
from spark_analytics.judgement.lives import RESTORED, UNTRUE
from spark_analytics.judgement.log_files import SIGNED_SO, UNLISTED, UNREADABLE
from spark_analytics.judgement.tails import TAKEN_AWAY

from .finding import Finding, Row, many, say

_AUDIT_THE_OLDER = " If its log began anew, audit its older log, if there is a copy, for itself."


def bad_files(summary: Row) -> Iterator[Finding]:
    """Yield a finding for the files of each router that cannot be read or believed, by the reason."""
    bad: dict[tuple[str, str], list[str]] = {}
    for file in summary["files"]:
        if file["status"] == "bad":
            why = _why_bad([text for text in summary["problems"] if text.startswith(f"{file['path']}:")])
            bad.setdefault((file["router"] or "", why), []).append(file["path"])
    for (router, why), paths in bad.items():
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        whose = f"of the log of the router {router}" if router else "of a log whose router is not known"
        what, remedy = _BAD[why]
        yield say(
            "bad",
            f"{many(len(paths), 'file')} {whose} cannot {what}: {', '.join(paths[:3])}{more}. Nothing in them counts.",
            f"`problems` says file, line and what is wrong. {remedy}",
        )


_BAD = {
    "unread": ("be read", "Give the audit the right to read them, or a disk that can, and audit again."),
    "unlike": (
        "be believed",
        "Nobody signed these events, and the router signed others. If two nodes use its key, or a copy of its home "
        "went on, stop one and give it a key of its own; else put back the segments that are missing or were changed.",
    ),
    "signed": (
        "be believed, though its router signed it: footer and lines contradict each other",
        "The router has a defect, or whoever has its key wrote the log: compare it with its neighbours' logs, and make "
        "a new key if it was not you.",
    ),
    "changed": ("be believed", "Put back an unharmed copy, and find out what changed them."),
}
"""The reason why files of each bad status cannot be used, and the remedy."""


def _why_bad(texts: Iterable[str]) -> str:
    if any(f": {UNREADABLE}" in text for text in texts):
        return "unread"
    if any(text.endswith(SIGNED_SO) for text in texts):
        return "signed"
    return "unlike" if any(text.endswith((TWO_HISTORIES, TAKEN_AWAY)) for text in texts) else "changed"


def unlisted(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each directory that cannot be listed: nobody knows how many logs are in it."""
    for text in summary["problems"]:
        if f": {UNLISTED}: " in text:
            path, _, why = text.partition(f": {UNLISTED}: ")
            yield say(
                "bad",
                f"The directory {path} {UNLISTED} ({why}). Whose logs it holds is not known, and none counts.",
                "Give the audit the right to read it, and audit again.",
            )


def forks(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each log that has two histories."""
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
        yield say(
            "bad",
            f"The log of the router {router} has two histories from event {seq} on{causes}. Nothing counts from there.",
            "If two nodes run, stop one and give it a key of its own. Then audit each history for itself: a log that "
            "began anew and the older one are no longer one log.",
        )


def rewritten(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each log that is not what neighbours saw of it."""
    for hole in summary["holes"]:
        if hole["why"].endswith(REWRITTEN):
            yield say(
                "bad",
                f"The log of the router {hole['router']} is not what its neighbours saw: {hole['why']} "
                f"({events(hole['first_seq'], hole['last_seq'])}).",
                "Two neighbours say so, or its own files contradict each other too: compare it with a copy from "
                "before. If the node's store was deleted, its log began anew at event 1, and neighbours remember the "
                "older one: audit that, if there is a copy, for itself. Otherwise whoever has the router's key can do "
                "this; if it was not you, make a new key.",
            )


def disputed(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each log that a single neighbour contradicts: it counts all the same."""
    for log in summary["logs"]:
        of_it = f"of the log of {log['router']}, "
        for text in (text for text in log["problems"] if text.endswith(DISPUTED)):
            yield say(
                "warning",
                f"Of the log of the router {log['router']}, {text.partition(of_it)[2]}.",
                "It is the word of one against the other, and the log counts. Give the logs of its other neighbours: "
                "what a second one saw decides. If the node's store was deleted, its log began anew at event 1; audit "
                "the older one, if there is a copy, for itself. Make a new key only if the log was rewritten.",
            )


def restore_denied(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each restore that a neighbour contradicts."""
    for hole in summary["holes"]:
        if hole["why"].endswith(UNTRUE):
            yield say(
                "bad",
                f"The log of the router {hole['router']} names a restore that a neighbour contradicts: {hole['why']} "
                f"({events(hole['first_seq'], hole['last_seq'])}).",
                "If the home of before still runs, stop it: both have one key. If a clock was wrong by days, set it "
                "and audit again. Otherwise whoever has the router's key wrote the restore into the log to leave these "
                "events out: compare the logs of its neighbours, and make a new key if it was not you.",
            )


def restored(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each restore of a router from a snapshot."""
    unknown = {row["router"]: row["unknown"] for row in summary["by_router"]}
    denied = {hole["router"] for hole in summary["holes"] if hole["why"].endswith(UNTRUE)}
    for hole in (hole for hole in summary["holes"] if hole["why"].endswith(RESTORED)):
        if (router := hole["router"]) in denied:
            continue
        former = sum(file["status"] == "former" and file["router"] == router for file in summary["files"])
        are = "is" if former == 1 else "are"
        aside = f" {many(former, 'file')} of a life before {are} left out." if former else ""
        count = unknown.get(router, 0)
        judged = f" {many(count, 'delivery')} cannot be judged." if count else ""
        yield say(
            "warning",
            f"The router {router} was {hole['why']} ({events(hole['first_seq'], hole['last_seq'])}).{aside}{judged}",
            "Nothing has to be mended. If somebody still runs the home of before, stop it: both have one key.",
        )


def no_log(summary: Row) -> Iterator[Finding]:
    """Yield a finding if no router's log is among the files."""
    if not summary["logs"]:
        yield say("warning", "No router's log is among the files: there is nothing to judge.", "Name its directory.")


def incomplete(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each log that lacks events other than by a restore."""
    unknown = {row["router"]: row["unknown"] for row in summary["by_router"]}
    for log in summary["logs"]:
        of_it = (hole for hole in summary["holes"] if hole["router"] == log["router"])
        holes = [hole for hole in of_it if not hole["why"].endswith((RESTORED, UNTRUE))]
        if holes:
            count, more = unknown.get(log["router"], 0), len(holes) - 1
            spans = f"{events(holes[0]['first_seq'], holes[0]['last_seq'])} ({holes[0]['why']})"
            spans += f" and {many(more, 'more span')}" if more else ""
            judged = f"{many(count, 'delivery')} cannot be judged" if count else "no other delivery depends on them"
            judged += ", and what was accepted in them is not counted at all"
            anew = _AUDIT_THE_OLDER if any(hole["why"].endswith(BEGUN_ANEW) for hole in holes) else ""
            is_fork = all("tell two histories" in hole["why"] for hole in holes)
            give = "Give the missing files too (or a copy of them) and audit again."
            if any(LIES in hole["why"] for hole in holes):
                give += " That it is longer, a single neighbour says: compare with what its other neighbours saw."
            yield say(
                "warning",
                f"The log of the router {log['router']} is not whole: it lacks {spans}; {judged}.",
                "Audit each of the two histories for itself." if is_fork else f"{give}{anew}",
            )


def other_problems(summary: Row) -> Iterator[Finding]:
    """Yield a finding for the problems with files that no other finding explains."""
    explained = {file["path"] for file in summary["files"] if file["status"] in ("bad", "fork")}
    rest = [text for text in summary["problems"] if not any(text.startswith(f"{path}:") for path in explained)]
    rest = [text for text in rest if not text.endswith((REWRITTEN, DISPUTED)) and f": {UNLISTED}: " not in text]
    if rest:
        more = f" (and {len(rest) - 1} more)" if len(rest) > 1 else ""
        yield say("warning", f"Problems with the files: {rest[0]}{more}.", "`problems` lists what it is and where.")
