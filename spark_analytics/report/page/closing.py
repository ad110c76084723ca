"""The end of the page: a glossary, what was judged, and where the numbers come from."""

from __future__ import annotations

from spark_analytics.report.reading import Row, part, rows

from .figure import code, empty, figure, section, table
from .markup import Markup, join, tag
from .wording import NAMES, counted, number

_WORDS = (
    (
        "router",
        "A program that passes signed messages on. Its address is a key; here keys are cut off, and selecting or "
        "clicking one gives all of it.",
    ),
    ("recipient", "Whom a message is owed to: an app or service at this router, or the next router on the way."),
    (
        "delivery",
        "One message owed to one recipient by one router. The unit in which everything on this page is counted.",
    ),
    (
        "accepted",
        "The router checked the message, stored it, and wrote down to whom it owes it. From then on it answers for it.",
    ),
    ("hop", "The way from one router to a recipient or to the next router."),
    (
        "window",
        "A stretch of time in the pictures. A delivery belongs to the window in which its message was accepted.",
    ),
    ("event log", "What a router writes about every message: numbered without gaps, never the contents of a message."),
    ("segment", "A closed file of the event log, signed by its router."),
    ("tail", "The newest part of a log, not closed and not signed yet."),
    ("hole", "Sequence numbers of a log that are missing here."),
    ("watermark", "Up to this instant the logs say everything. What comes later is judged only as far as it goes."),
    (
        "p50, p95, p99",
        "Percentiles: 50, 95 and 99 of 100 deliveries were at least this fast. By nearest rank over fixed buckets "
        "less than 1 % wide.",
    ),
    ("ttl, expiry", "How long a message may wait at each hop, and when it ends everywhere. Its sender sets both."),
    ("parcel", "Messages that arrived together; named by the arrival number of the first."),
)


def closing(summary: Row) -> Markup:
    return tag(
        "section",
        tag("h2", "Words, and where the numbers come from", id="words-title"),
        tag("dl", *(tag("div", tag("dt", word), tag("dd", meaning)) for word, meaning in _WORDS), class_="glossary"),
        _source(summary),
        id="words",
        aria_labelledby="words-title",
    )


HEADS_SHOWN = 200
_MADE = (
    ("command", "command"),
    ("router", "version of the router"),
    ("spark", "version of Spark"),
    ("duckdb", "version of DuckDB"),
    ("python", "version of Python"),
    ("signed_by", "signed by"),
)
"""What a run says of its own making, and its name on the page."""


def judged(summary: Row) -> Markup:
    """Return what a reader needs in order to tell that another audit, or these tables, are of the same logs."""
    lead = (
        "Two auditors were shown the same logs if their heads are the same: the digest of a log's last sealed event "
        "stands for all before it. The digests of the tables stand for every row in them."
    )
    run = part(summary, "run")
    return section(
        "judged", "What was judged", lead, _heads(rows(summary, "heads")), _made(run), _tables(part(run, "tables"))
    )


def _heads(found: list[Row]) -> Markup:
    title = "The head of each log"
    if not found:
        return empty("heads", title, "No log has a sealed event.")
    return figure(
        "heads",
        title,
        see=f"The last sealed event of {counted(len(found), 'log')}, and its segment's digest.",
        do=join(
            "Compare them with another audit of these routers: ", code("router audit --compare OTHER/summary.json"), "."
        ),
        chart=table(
            "Heads",
            (("router", ""), ("event", "n"), ("digest (SHA-256)", "")),
            ((_whole_key(row.get("router")), row.get("event"), _in_full(row.get("digest"))) for row in found),
            most=HEADS_SHOWN,
        ),
    )


def _whole_key(value: object) -> Markup:
    name = NAMES.get().get(str(value))
    return join(tag("b", name, " ") if name else None, _in_full(value))


def _in_full(value: object) -> Markup:
    return tag("code", value, class_="whole")


def _made(run: Row) -> Markup | None:
    found = [(said, run[name]) for name, said in _MADE if isinstance(run.get(name), str)]
    if not found:
        return None
    is_signed = "signed_by" in run
    return figure(
        "made",
        "How it was made",
        see="The command as it was typed, and the versions of what ran.",
        do=join(
            "Check the signature: ", code("router audit-verify DIR"), " says whether the files are as they were signed."
        )
        if is_signed
        else "Nothing; it is for making the same audit again.",
        chart=table("Made by", (("what", ""), ("", "")), ((said, _in_full(text)) for said, text in found)),
    )


def _tables(found: Row) -> Markup | None:
    if not found:
        return None
    return figure(
        "tables",
        "The digests of the tables",
        see=f"The SHA-256 of {counted(len(found), 'table')} beside this page. Where Spark wrote a table in several "
        "files, it is that of their digests.",
        do=join("Compare them with ", code("sha256sum *.parquet"), " in the directory of the audit."),
        chart=table("Tables", (("table", ""), ("SHA-256", "")), ((name, _in_full(found[name])) for name in found)),
    )


def _source(summary: Row) -> Markup:
    run = part(summary, "run")
    told = "; ".join(
        f"{name} {number(value) if isinstance(value, int | float) else value}"
        for name, value in sorted(run.items())
        if name not in dict(_MADE) and isinstance(value, int | float | str)
    )
    engine = summary.get("engine")
    return tag(
        "p",
        f"Read from {counted(len(rows(summary, 'logs')), 'log')}. ",
        join("Counted by the engine ", tag("b", engine), f" ({told})." if told else ".") if engine else None,
        " All numbers of this page stand in ",
        code("router audit --json"),
        "; the other engine gives the same ones. Times are UTC. This page holds no body of any message and loads "
        "nothing from anywhere.",
        class_="source",
    )
