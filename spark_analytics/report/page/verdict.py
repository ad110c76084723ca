"""The top of the page: the verdict in one sentence, what needs doing, and the balance of all deliveries owed."""

from __future__ import annotations

from spark_analytics.report.headline import headline
from spark_analytics.report.reading import Row, part, rows, whole, whole_or_none, words

from .figure import folded, table
from .markup import Markup, join, tag
from .states import NAMES, STATES, State, named
from .wording import counted, key, number, prose, share

LEVELS = {"bad": "Bad", "attention": "Needs attention", "info": "For information", "good": "Good"}
"""Levels of the verdict and of findings, the worst first; findings say `warning` for attention."""
FINDINGS_MAX = 40
URGENT_SHOWN = 6
_MARKS = {
    "good": "M5 12.5l4.5 4.5L19 7.5",
    "attention": "M12 6.5v7.5M12 17.6v.2",
    "bad": "M7 7l10 10M17 7L7 17",
    "info": "M12 10.500v7M12 6.600v.200",
}
_SHAPES = {
    "good": "M12 1.5a10.5 10.5 0 1 0 .01 0z",
    "info": "M12 1.500a10.500 10.500 0 1 0 .01 0z",
    "attention": "M12 2L23 21.5H1z",
    "bad": "M7.4 1.5h9.2L22.500 7.400v9.200L16.600 22.500H7.400L1.500 16.600V7.400z",
}


def mark(level: str) -> Markup:
    """Return a sign whose shape shows the level without colour."""
    return tag(
        "svg",
        tag("path", d=_SHAPES[level], class_="shape"),
        tag("path", d=_MARKS[level], class_="sign"),
        viewbox="0 0 24 24",
        width=24,
        height=24,
        aria_hidden="true",
        class_="mark",
    )


def level_of(value: object) -> str:
    return str(value) if str(value) in LEVELS else "attention"


def top(summary: Row) -> Markup:
    level = level_of(summary.get("verdict"))
    return join(
        tag(
            "div",
            tag("p", mark(level), tag("span", LEVELS[level]), class_=f"level {level}"),
            tag("h1", headline(summary)),
            _reached(part(summary, "run"), is_whole=not rows(summary, "holes")),
            tag("p", _equation(summary), class_="equation"),
            class_="verdict",
        ),
        _todo(rows(summary, "findings")),
    )


def _reached(run: Row, *, is_whole: bool) -> Markup | None:
    """Return how many messages reached everybody, if the audit has followed each message over all routers; without the
    whole logs nobody knows to whom else they were owed."""
    reached, beyond, messages = (whole_or_none(run, name) for name in ("reached", "beyond", "owed_messages"))
    if reached is None or not messages or not is_whole:
        return None
    also = f" {number(beyond)} more were all taken over, some by routers whose logs are not here." if beyond else ""
    whom = "everybody to whom they were owed"
    share = f"All {number(messages)}" if reached == messages else f"{number(reached)} of {number(messages)}"
    return tag("p", tag("b", f"{share} messages"), f" reached {whom}.{also}", class_="reached")


def _equation(summary: Row) -> Markup:
    """Return the equation owed = delivered + acked + ..., and the residual."""
    terms: list[object] = []
    for name in NAMES:
        n = whole(summary, name)
        zero = "" if n else " zero"
        terms.append(tag("span", tag("b", number(n)), " ", name, class_=f"term{zero}"))
        terms.append(" + ")
    residual = whole_or_none(summary, "residual")
    return join(
        tag("span", tag("b", number(whole(summary, "owed"))), " owed", class_="term"),
        " = ",
        *terms[:-1],
        tag("span", "; residual ", tag("b", number(residual)), class_="term residual"),
    )


def _todo(found: list[Row]) -> Markup:
    """List the findings with their remedies, worst first; those that need no action are folded."""
    if not found:
        return tag("p", "The audit names no finding.", class_="nothing")
    by_level = {name: [row for row in found if level_of(row.get("level")) == name] for name in LEVELS}
    urgent = by_level["bad"] + by_level["attention"] or by_level["good"]
    shown = max(URGENT_SHOWN, len(by_level["bad"]))
    later, info = urgent[shown:], by_level["info"]
    return tag(
        "div",
        tag("h2", "What was found", id="found"),
        tag(
            "div",
            _findings(urgent[:shown]) if urgent else tag("p", "Nothing that needs anybody.", class_="nothing"),
            folded(f"To look at: {counted(len(later), 'more finding')}", _findings(later)) if later else None,
            folded(f"Worth knowing: {counted(len(info), 'more finding')}", _findings(info)) if info else None,
        ),
        class_="found",
    )


def _findings(found: list[Row]) -> Markup:
    items = [
        tag(
            "li",
            mark(level := level_of(row.get("level"))),
            tag("div", tag("p", prose(row.get("text", ""))), _remedy(row.get("remedy"))),
            class_=level,
        )
        for row in found[:FINDINGS_MAX]
    ]
    if len(found) > FINDINGS_MAX:
        items.append(tag("li", f"and {number(len(found) - FINDINGS_MAX)} more", class_="rest"))
    return tag("ul", *items, class_="findings")


def _remedy(words: object) -> Markup | None:
    return tag("p", tag("b", "Remedy.", class_="run-in"), " ", prose(words), class_="remedy") if words else None


def balance(summary: Row) -> Markup:
    """Return the table of states, each with its number, share and meaning, down to the residual."""
    owed = whole(summary, "owed")
    return tag(
        "section",
        tag("h2", "The balance", id="balance-title"),
        tag("p", _lead(summary), class_="lead"),
        _strip(summary, owed),
        tag("div", *(_line(state, whole(summary, state.name), owed) for state in STATES), class_="ledger"),
        _sum(summary, owed),
        _unknown(summary),
        _beside(summary),
        folded("The balance of each router", _by_router(rows(summary, "by_router"))),
        id="balance",
        aria_labelledby="balance-title",
    )


def _lead(summary: Row) -> str:
    messages, owed = whole(summary, "messages"), whole(summary, "owed")
    if not owed:
        return (
            "When a router accepts a message, it writes down to whom the message is owed. No such line lies in the "
            "logs and the time that were audited, so every number below is 0."
        )
    return (
        f"Routers accepted {counted(messages, 'different message')} and wrote down, there and then, to whom each is "
        f"owed: together {counted(owed, 'delivery', 'deliveries')}, one for each router, message and recipient. "
        "Every one of them is in exactly one of ten states, so the states add up to what was owed. What is left "
        "over is the residual; it is 0, or this audit is wrong."
    )


def _strip(summary: Row, owed: int) -> Markup | None:
    """Draw one bar of everything owed, by state."""
    if not owed:
        return None
    parts, x = [], 0.0
    for name in NAMES:
        width = 100 * whole(summary, name) / owed
        if width > 0:
            title = tag("title", f"{name}: {number(whole(summary, name))} ({share(whole(summary, name), owed)})")
            parts.append(tag("rect", title, x=f"{x:.3f}%", y=0, width=f"{width:.3f}%", height=22, class_=f"s-{name}"))
        x += width
    words = ", ".join(f"{name} {share(whole(summary, name), owed)}" for name in NAMES if whole(summary, name))
    return tag("svg", *parts, class_="strip", width="100%", height=22, role="img", aria_label=f"Owed: {words}")


def _line(state: State, n: int, owed: int) -> Markup:
    return tag(
        "div",
        tag("div", named(state.name), class_="name"),
        tag("div", number(n), class_="n"),
        tag("div", share(n, owed), class_="share"),
        tag("div", state.meaning, class_="meaning"),
        class_=f"entry {state.family}" + ("" if n else " zero") + (" alarm" if n and state.family == "lost" else ""),
    )


def _sum(summary: Row, owed: int) -> Markup:
    together = sum(whole(summary, name) for name in NAMES)
    residual = whole_or_none(summary, "residual")
    lines = (
        ("their sum", number(together), "", "total"),
        ("owed", number(owed), "What the routers wrote down when they accepted the messages.", ""),
        ("residual", number(residual), "Owed minus the sum. " + ("It balances." if residual == 0 else ""), "residual"),
    )
    return tag(
        "div",
        *(
            tag(
                "div",
                tag("div", name, class_="name"),
                tag("div", n, class_="n"),
                tag("div", class_="share"),
                tag("div", meaning, class_="meaning"),
                class_=f"entry {class_}".strip(),
            )
            for name, n, meaning, class_ in lines
        ),
        class_="ledger sums",
    )


def _unknown(summary: Row) -> Markup:
    """Explain what these logs cannot show, and why."""
    ends = {(str(row.get("router")), whole(row, "first_seq")): whole(row, "last_seq") for row in rows(summary, "holes")}
    spans = [
        tag(
            "li",
            f"{counted(whole(row, 'unknown'), 'delivery', 'deliveries')} of router ",
            key(row.get("router")),
            f": its log lacks events {_from_to(first, ends.get((str(row.get('router')), first)))}.",
        )
        for row in rows(summary, "spans")[:20]
        for first in [whole(row, "hole_first")]
    ]
    limits = [tag("li", prose(text)) for text in words(summary, "limits")[:20]]
    if not spans and not limits:
        return tag("p", tag("b", "What is unknown.", class_="run-in"), " Nothing in these logs.", class_="unknown")
    return tag(
        "div", tag("h3", "What is unknown, and why"), tag("ul", *spans, *limits, class_="plain"), class_="unknown"
    )


def _from_to(first: int, last: int | None) -> str:
    if last is None:
        return f"from number {number(first)} on"
    return number(first) if last == first else f"{number(first)} to {number(last)}"


_BESIDE = (
    (
        "duplicates",
        "The same message was delivered to the same recipient again. Recipients must bear it; it is not a loss.",
    ),
    (
        "redelivered",
        "Handed over once more because the recipient went away before it confirmed. Expected after crashes.",
    ),
    (
        "accepted_again",
        "How often a router accepted a message that it had accepted before. Should be 0: routers know what they have.",
    ),
    (
        "copies",
        "Sent on to another router by a service of the router here. Each is owed to that router, and counted above.",
    ),
    ("contradictions", "Deliveries with two different ends in the log, counted under the first. Should be 0."),
    ("strays", "Ends of deliveries whose acceptance is not in these logs, so they count nowhere above."),
)


def _beside(summary: Row) -> Markup:
    found = [(name.replace("_", " "), whole(summary, name), why) for name, why in _BESIDE if name in summary]
    if not found:
        found = [("duplicates", 0, _BESIDE[0][1])]
    return folded(
        "Beside the balance: duplicates and other counts",
        table("Counted beside the balance", (("what", ""), ("count", "n"), ("what it means", "")), found),
    )


def _by_router(found: list[Row]) -> Markup:
    if not found:
        return tag("p", "No router's log was read.", class_="nothing")
    columns = (("router", ""), ("owed", "n"), *((name, "n") for name in NAMES))
    return table(
        "The balance of each router",
        columns,
        ((key(row.get("router")), whole(row, "owed"), *(whole(row, name) for name in NAMES)) for row in found),
    )
