"""The end of the page: a glossary, and where the numbers come from."""

from __future__ import annotations

from spark_analytics.report.reading import Row, part, rows

from .figure import code
from .markup import Markup, join, tag
from .wording import counted, number

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


def _source(summary: Row) -> Markup:
    run = part(summary, "run")
    told = "; ".join(
        f"{name} {number(value) if isinstance(value, int | float) else value}"
        for name, value in sorted(run.items())[:12]
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
