"""Handovers from one router to the next: whether each message taken arrived there, and how far apart the two clocks
are."""

from __future__ import annotations

import shlex

from spark_analytics.report.reading import Row, rows, whole

from .charts import pc, plot, row
from .clocks import clocks
from .figure import code, empty, figure, section, table
from .markup import Markup, join, plain, tag
from .states import named
from .wording import be, counted, key, number

SHOWN = 16
_STATES = (("followed", "s-acked"), ("unknown", "s-unknown"), ("broken", "s-unaccounted"))
"""States in the order of painting: what is broken is never covered."""
_COUNTS = ("acked", "followed", "broken", "unknown")


def custody(summary: Row) -> Markup:
    lead = (
        "When the next router says that it took a message over, its own log must say the same. Where both logs are "
        "here, that is checked message by message: the chain is followed, broken, or not to be judged because the "
        "other log has a gap."
    )
    return section("custody", "From router to router", lead, _chain(summary), clocks(summary))


def _chain(summary: Row) -> Markup:
    title = "Messages that one router handed over and the next must have"
    found = [each for each in rows(summary, "custody") if whole(each, "acked")]
    if not found:
        return empty(
            "chain",
            title,
            "No message went from one router of these logs to another, so there is no chain to follow. For a chain, "
            "give the audit the logs of both routers.",
        )
    total = {name: sum(whole(each, name) for each in found) for name in _COUNTS}
    broken = total["broken"]
    ranked = sorted(found, key=lambda each: (-whole(each, "broken"), -whole(each, "unknown"), -whole(each, "acked")))
    unlike = [each for each in ranked if whole(each, "followed") < whole(each, "acked")][:SHOWN]
    not_there = (
        f"{number(broken)} {be(broken)} not, though that log is whole" if broken else "none is known to be missing"
    )
    which = "" if unlike else " As every chain is whole, only their sum is drawn."
    return figure(
        "chain",
        title,
        see=f"{number(total['followed'])} of {number(total['acked'])} handed over are found in the next router's log; "
        f"{not_there}.{which}",
        do=_remedy(total),
        chart=join(
            tag("p", "Share of the messages handed over", class_="chart-title"),
            tag("p", *(named(*each) for each in _STATES), class_="legend"),
            tag(
                "div",
                _chain_row(total, f"all {counted(len(found), 'pair')}"),
                *(_chain_row(each, _pair(each)) for each in unlike),
                class_="rows",
            ),
            _examples(rows(summary, "broken")),
        ),
        same=_table(ranked),
        level="bad" if broken else "",
    )


def _table(found: list[Row]) -> Markup:
    return table(
        "Custody",
        (
            ("from router", ""),
            ("to router", ""),
            ("handed over", "n"),
            ("followed", "n"),
            ("broken", "n"),
            ("unknown", "n"),
        ),
        (
            (key(each.get("router")), key(each.get("recipient")), *(whole(each, name) for name in _COUNTS))
            for each in found
        ),
    )


def _remedy(total: dict[str, int]) -> str:
    said = []
    if total["broken"]:
        said.append(
            "A broken chain means that a router confirmed what it did not keep: follow the examples, and look at "
            "that router's disk and store."
        )
    if total["unknown"]:
        said.append(
            "Give the audit the newest logs of both routers, for the same time: "
            f"{number(total['unknown'])} cannot be followed, as the next router's log ends before, begins after, or is "
            "not whole."
        )
    return " ".join(said) or "Nothing."


def _pair(each: Row) -> Markup:
    return join(key(each.get("router")), " → ", key(each.get("recipient")))


def _chain_row(each: Row, name: object) -> Markup:
    total, x, marks = whole(each, "acked"), 0.0, []
    for state, class_ in _STATES:
        width = 100 * whole(each, state) / total
        if width:
            drawn = max(width, 0.8)
            title = tag("title", f"{state}: {number(whole(each, state))}")
            marks.append(tag("rect", title, x=pc(min(x, 100 - drawn)), width=pc(drawn), y=4, height=14, class_=class_))
        x += width
    words = ", ".join(f"{state} {number(whole(each, state))}" for state, _ in _STATES)
    broken = whole(each, "broken")
    value = join(
        tag("b", number(total)), tag("span", f"{number(broken)} broken" if broken else "none broken", class_="fine")
    )
    return row(name, plot(22, words, *marks, below=0), value, "alarm-row" if broken else "")


def why_command(identity: object) -> Markup:
    """Return `router why ID` as a command that is safe to paste, whatever the log gives as the id."""
    return code(f"router why {shlex.quote(plain(identity))}")


def _examples(found: list[Row]) -> Markup | None:
    if not found:
        return None
    return table(
        "Examples of broken chains",
        (("from", ""), ("to", ""), ("message: run this at either router", "")),
        ((key(each.get("router")), key(each.get("recipient")), why_command(each.get("id", ""))) for each in found),
        most=20,
    )
