"""Oddities of the data itself: lines set apart, timestamps from the future, unknown words."""

from __future__ import annotations

from spark_analytics.report.reading import Row, grouped, minute, rows, whole, whole_or_none

from .figure import empty, figure, section, table
from .markup import Markup, join
from .wording import counted, key, moment, number

EVENTS_SHOWN = 40


def quality(summary: Row) -> Markup:
    lead = (
        "Nothing is thrown away in silence. What could not be used as it stood was counted, by router, and left out "
        "of the figures that it would have spoilt."
    )
    return section(
        "quality",
        "Quality of the data",
        lead,
        _checks(rows(summary, "quality")),
        _future(rows(summary, "future")),
        _events(rows(summary, "events")),
    )


def _checks(found: list[Row]) -> Markup:
    title = "What was set apart or looked odd"
    odd = sorted((row for row in found if whole(row, "count")), key=lambda row: -whole(row, "count"))
    if not odd:
        return empty("checks", title, "Nothing: every line could be used as it stood.")
    return figure(
        "checks",
        title,
        see=f"{counted(len(odd), 'kind')} of oddity, the most frequent “{str(odd[0].get('check'))[:80]}” "
        f"({number(whole(odd[0], 'count'))}).",
        do="A handful after a crash or a change of clocks is usual. If a number grows from audit to audit, look at "
        "that router.",
        chart=table(
            "Checks",
            (("check", ""), ("router", ""), ("count", "n")),
            ((row.get("check"), key(row.get("router"), "all"), whole(row, "count")) for row in odd),
        ),
    )


def _future(found: list[Row]) -> Markup | None:
    if not found:
        return None
    lines = sum(whole(row, "lines") for row in found)
    return figure(
        "future",
        "Lines with a time later than this audit",
        see=f"{counted(lines, 'line')} of {counted(len(found), 'router')}. They count as if written at the audit's "
        "instant and move no watermark.",
        do="Set that router's clock: messages expire by it.",
        chart=table(
            "Future",
            (("router", ""), ("lines", "n"), ("latest, UTC", "")),
            ((key(row.get("router")), whole(row, "lines"), _instant(row.get("latest_t"))) for row in found),
        ),
        level="attention",
    )


def _instant(value: object) -> str:
    if isinstance(value, int):
        return moment(value // 60_000_000_000)
    at = minute(value)
    return "–" if at is None else moment(at)


def _events(found: list[Row]) -> Markup:
    title = "Everything that the logs hold, by kind of event"
    if not found:
        return empty("events", title, "The logs that were read hold no event.")
    sums = sorted(
        (
            (
                event,
                sum(whole(row, "lines") for row in each),
                sum(whole_or_none(row, "count") or 0 for row in each),
                len(each),
            )
            for (event,), each in grouped(found, "event").items()
        ),
        key=lambda row: (-row[1], str(row[0])),
    )
    return figure(
        "events",
        title,
        see=join(
            f"{counted(sum(row[1] for row in sums), 'line')} of {counted(len(sums), 'kind')}. One line may stand for "
            "many messages."
        ),
        do="Nothing; this is for comparing one audit with another.",
        chart=table(
            "Events", (("event", ""), ("lines", "n"), ("messages", "n"), ("routers", "n")), sums, most=EVENTS_SHOWN
        ),
    )
