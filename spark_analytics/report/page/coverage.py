"""The parts of each router's log that this audit has: whole, pruned, missing, or a tail that is not sealed yet."""

from __future__ import annotations

from collections.abc import Iterator

from spark_analytics.report.reading import Row, rows, whole, whole_or_none, words

from .charts import f, label, pc, plot, row
from .figure import empty, figure, section, table
from .markup import Markup, join, tag, text
from .states import named
from .wording import counted, key, number, prose, short

ROUTERS_SHOWN = 24
PROBLEMS_SHOWN = 40
_KINDS = (
    ("whole", "read, and signed by its router"),
    ("tail", "read, not sealed yet"),
    ("pruned", "deleted on purpose, its signed footer is here"),
    ("missing", "not known"),
)


def coverage(summary: Row) -> Markup:
    lead = (
        "On what does all this rest? Every router numbers what it writes, without gaps, and signs its log in "
        "segments. So what is missing is known to the line, and what was changed afterwards does not fit its "
        "signature."
    )
    return section("logs", "Logs", lead, _strips(summary), _problems(summary))


def _strips(summary: Row) -> Markup:
    title = "How much of each router's log was read, by sequence number"
    logs = rows(summary, "logs")
    if not logs:
        return empty(
            "coverage",
            title,
            "No event log was read. Name the directories in which routers keep theirs (log/ in a router's home).",
        )
    holes = rows(summary, "holes")
    tails = [each for each in rows(summary, "files") if each.get("status") == "tail"]
    broken = [log for log in logs if not log.get("whole")]
    drawn = (_strip(log, holes, tails) for log in [*broken, *(log for log in logs if log.get("whole"))][:ROUTERS_SHOWN])
    more = (
        tag("p", f"and {number(len(logs) - ROUTERS_SHOWN)} more in the table", class_="rest")
        if len(logs) > ROUTERS_SHOWN
        else None
    )
    return figure(
        "coverage",
        title,
        see=f"{_see(logs, broken)} Pruned is not missing: the router deleted it by its own rules, and said so.",
        do="Bring the missing segments from the router or a copy, and run the audit again; the numbers that are "
        "missing stand in the table."
        if broken
        else "Nothing.",
        chart=join(_legend(), tag("div", *drawn, class_="rows"), more),
        same=join(_log_table(logs), _hole_table(holes) if holes else None),
        level="attention" if broken else "",
    )


def _see(logs: list[Row], broken: list[Row]) -> str:
    if not broken:
        return f"{'The log is' if len(logs) == 1 else f'All {number(len(logs))} logs are'} whole."
    return (
        f"{counted(len(broken), 'log')} of {number(len(logs))} {'has' if len(broken) == 1 else 'have'} missing "
        "parts, or problems; what was accepted before a missing part and has no end is unknown."
    )


def _log_table(logs: list[Row]) -> Markup:
    return table(
        "Logs",
        (
            ("router", ""),
            ("segments", "n"),
            ("first", "n"),
            ("last", "n"),
            ("pruned up to", "n"),
            ("whole", ""),
            ("in", ""),
        ),
        (
            (
                key(log.get("router")),
                whole(log, "segments"),
                whole_or_none(log, "first"),
                whole_or_none(log, "last"),
                whole(log, "pruned_to") or None,
                "yes" if log.get("whole") else "no",
                log.get("place") or "–",
            )
            for log in logs
        ),
    )


def _hole_table(holes: list[Row]) -> Markup:
    return table(
        "Missing parts",
        (("router", ""), ("from", "n"), ("to", "n"), ("why", "")),
        (
            (
                key(hole.get("router")),
                whole_or_none(hole, "first_seq"),
                whole_or_none(hole, "last_seq"),
                hole.get("why", ""),
            )
            for hole in holes
        ),
    )


def _legend() -> Markup:
    return tag(
        "p",
        *(
            join(tag("span", named(kind, f"c-{kind}"), " ", tag("span", meaning, class_="fine")))
            for kind, meaning in _KINDS
        ),
        class_="legend",
    )


def _strip(log: Row, holes: list[Row], tails: list[Row]) -> Markup:
    router, last = log.get("router"), max(whole(log, "last"), 1)
    mine = [hole for hole in holes if hole.get("router") == router]
    last = max([last, *(whole(hole, "last_seq") for hole in mine)])
    marks = [_span(kind, first, until, last, why) for kind, first, until, why in _spans(log, mine, tails)]
    words = f"log of {short(router)}: up to {number(last)}, {'whole' if log.get('whole') else 'not whole'}"
    drawing = plot(
        24,
        words,
        tag("rect", x=0, y=4, width="100%", height=16, class_="c-none"),
        *marks,
        label("0", 34, "1", "tick"),
        label("100%", 34, number(last), "tick", text_anchor="end"),
        below=14,
    )
    state = "whole" if log.get("whole") else "not whole"
    value = join(tag("b", state), tag("span", counted(whole(log, "segments"), "segment"), class_="fine"))
    return row(key(router), drawing, value, "strip-row" if log.get("whole") else "strip-row alarm-row")


def _spans(log: Row, holes: list[Row], tails: list[Row]) -> Iterator[tuple[str, int, int, str]]:
    """Yield (kind, first, last, why) in the order of painting: the topmost comes last."""
    first, last, pruned = whole(log, "first") or 1, whole(log, "last"), whole(log, "pruned_to")
    yield "whole", first, last, "read"
    if pruned:
        yield "pruned", first, pruned, "deleted on purpose"
    for tail in tails:
        if tail.get("router") == log.get("router"):
            yield "tail", whole(tail, "first_seq"), whole(tail, "last_seq"), "not sealed yet"
    for hole in holes:
        yield "missing", whole(hole, "first_seq"), whole(hole, "last_seq"), str(hole.get("why", ""))


def _span(kind: str, first: int, until: int, last: int, why: str) -> Markup | None:
    if until < first or not until:
        return None
    title = tag("title", f"{kind}: {number(first)} to {number(until)}" + (f", {why}" if why else ""))
    left = 100 * (max(first, 1) - 1) / last
    width = min(100 - left, max(100 * (until - first + 1) / last, 0.4))
    high = 24 if kind == "missing" else 16
    return tag("rect", title, x=pc(left), width=pc(width), y=f(12 - high / 2), height=high, class_=f"c-{kind}")


_STATUS = {
    "tail": "not sealed yet; its lines count",
    "pruned": "signed footers of what was deleted",
    "copy": "the same as another file; counted once",
    "former": "written by a life of its router before a restore; no line of it counts",
    "bad": "not as its router signed it; no line of it counts",
    "fork": "another history of the same router; no line of it counts",
    "foreign": "not an event log",
}


def _problems(summary: Row) -> Markup | None:
    found, files = words(summary, "problems"), rows(summary, "files")
    title = "Problems in the log files, with file and line"
    if not found and not files:
        sound = "None: every file that was read is as its router signed it."
        return empty("problems", title, sound) if rows(summary, "logs") else None
    items = [tag("li", tag("code", prose(text), class_="path")) for text in found[:PROBLEMS_SHOWN]]
    total = len(found) + whole(summary, "problems_more")
    if total > len(items):
        items.append(tag("li", f"and {number(total - len(items))} more", class_="rest"))
    bad = any(each.get("status") in ("bad", "fork") for each in files)
    return figure(
        "problems",
        title,
        see=f"{counted(total, 'problem')}. Files that are not simply sealed and good are in the table. No line "
        "of a file that does not fit its signature counts; its span is missing.",
        do="Fetch such files again from the router that wrote them. If they are the same there, somebody or "
        "something changed them after they were signed."
        if bad
        else "Bring what is named, if you have it; nothing was changed after it was signed.",
        chart=join(
            tag("ul", *items, class_="problems") if items else tag("p", "No problem.", class_="nothing"),
            _file_table(files) if files else None,
        ),
        level="bad" if bad else "",
    )


def _file_table(files: list[Row]) -> Markup:
    return table(
        "Files that are not simply sealed and good",
        (("file", ""), ("log of", ""), ("state", ""), ("from", "n"), ("to", "n"), ("lines", "n")),
        (
            (
                tag("code", text(each.get("path", "")), class_="path"),
                key(each.get("router"), "nobody known"),
                join(tag("b", each.get("status", "")), ": ", _STATUS.get(str(each.get("status")), "")),
                whole_or_none(each, "first_seq") or None,
                whole_or_none(each, "last_seq") or None,
                whole(each, "lines"),
            )
            for each in files
        ),
        most=PROBLEMS_SHOWN,
    )
