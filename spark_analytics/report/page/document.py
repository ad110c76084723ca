"""The whole page: head, verdict, balance, sections and glossary; one file that loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

from spark_analytics.report.headline import headline
from spark_analytics.report.reading import Row, minute, part, rows, whole, windows

from .abuse import abuse
from .charts import TimeAxis
from .closing import closing, judged
from .coverage import coverage
from .custody import custody
from .deliveries import deliveries
from .latency import latency
from .lost import lost
from .markup import Markup, join, tag
from .quality import quality
from .queues import queues
from .routes import routes
from .script import SCRIPT
from .style import sheet
from .verdict import balance, mark, top
from .wording import NAMES, between, counted, moment

_SECTIONS = (
    ("balance", "The balance"),
    ("deliveries", "Deliveries and losses"),
    ("lost", "Lost without a trace"),
    ("latency", "Latency"),
    ("queues", "Queues"),
    ("routes", "Routes and links"),
    ("custody", "From router to router"),
    ("abuse", "Turned away"),
    ("logs", "Logs"),
    ("quality", "Quality of the data"),
    ("judged", "What was judged"),
    ("words", "Words"),
)


def render(summary: Row, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the report on a summary (`router audit --json`) as one HTML file; the same summary gives the same bytes.

    Each absent part of the summary is noted in a sentence. All its texts are shown as text, whatever they contain.
    `names`: what to show in place of keys.
    """
    told = NAMES.set(names)
    try:
        return _rendered(summary)
    finally:
        NAMES.reset(told)


def _rendered(summary: Row) -> str:
    axis = TimeAxis.over(windows(summary), whole(summary, "step_minutes") or 1)
    body = (
        tag("a", "To the verdict", href="#verdict", class_="skip"),
        _patterns(),
        _header(summary),
        tag(
            "main",
            tag("div", top(summary), id="verdict"),
            _contents(summary),
            _about(summary),
            balance(summary),
            deliveries(summary, axis),
            lost(summary),
            latency(summary, axis),
            queues(summary, axis),
            routes(summary, axis),
            custody(summary),
            abuse(summary),
            coverage(summary),
            quality(summary),
            judged(summary),
        ),
        tag("footer", closing(summary)),
        tag("div", id="tip", hidden=True),
        tag("div", id="said", class_="unseen", role="status"),
        tag("script", Markup(SCRIPT)),
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(summary), tag('body', *body), lang='en')}\n"


def _head(summary: Row) -> Markup:
    only = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{only}'; base-uri 'none'; form-action "
        "'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"Delivery audit: {headline(summary)}"),
        tag("style", Markup(sheet(_foot(summary)))),
    )


def _foot(summary: Row) -> str:
    """Return what stands at the foot of each printed page, in letters, digits and plain signs only."""
    at = minute(summary.get("as_of"))
    return "Delivery audit" if at is None else f"Delivery audit as of {moment(at)} UTC"


def _patterns() -> Markup:
    """Return stripes, by which states differ in more than colour; they are horizontal, so that stretching does not
    change them."""

    def stripes(name: str, colour: str, every: int, thick: float) -> Markup:
        ground = tag("rect", width=every, height=every, fill="var(--paper)")
        ink = tag("rect", width=every, height=f"{thick}", fill=f"var(--{colour})")
        return tag("pattern", ground, ink, id=name, width=every, height=every, patternunits="userSpaceOnUse")

    found = (
        ("hatch-unknown", "s-unknown", 4, 2.5),
        ("hatch-pending", "s-pending", 4, 1),
        ("hatch-missing", "s-unaccounted", 4, 2),
        ("hatch-off", "change", 4, 1.5),
    )
    return tag(
        "svg", tag("defs", *(stripes(*each) for each in found)), width=0, height=0, class_="unseen", aria_hidden="true"
    )


def _header(summary: Row) -> Markup:
    span, as_of, upto = part(summary, "span"), summary.get("as_of"), summary.get("watermark")
    told = []
    if (first := minute(span.get("from"))) is not None and (last := minute(span.get("until"))) is not None:
        told.append(tag("span", f"{between(first, last)} UTC"))
    if (at := minute(as_of)) is not None:
        told.append(tag("span", f"as of {moment(at)} UTC"))
    if (at := minute(upto)) is not None:
        told.append(tag("span", f"logs whole up to {moment(at)} UTC"))
    return tag(
        "header",
        tag("span", "Delivery audit", class_="name"),
        *told,
        tag("span", class_="spacer"),
        tag("button", "Light or dark", id="theme", type="button"),
    )


def _contents(summary: Row) -> Markup:
    urgent = set()
    if whole(summary, "unaccounted"):
        urgent |= {"deliveries", "lost"}
    if any(not log.get("whole") for log in rows(summary, "logs")):
        urgent.add("logs")
    if any(whole(row, "broken") for row in rows(summary, "custody")):
        urgent.add("custody")
    items = (
        tag(
            "li",
            tag(
                "a",
                title,
                _urgent() if name in urgent else None,
                href=f"#{name}",
                class_="to-do" if name in urgent else None,
            ),
        )
        for name, title in _SECTIONS
    )
    return tag("nav", tag("ul", *items), aria_label="Contents")


def _urgent() -> Markup:
    return join(" ", mark("bad"), tag("span", " (look here)", class_="unseen"))


def _about(summary: Row) -> Markup:
    return tag(
        "p",
        "Routers pass signed messages from sender to recipient, and each writes down what it does with every one. "
        f"This page reads those logs ({counted(len(rows(summary, 'logs')), 'router')}) and says, for each delivery "
        "that was owed, how it ended. ",
        join("Words that are new to you are explained ", tag("a", "at the end", href="#words"), "."),
        class_="about",
    )
