"""Examples of deliveries without an end, each with the command that traces it."""

from __future__ import annotations

from spark_analytics.report.reading import Row, rows, whole

from .custody import why_command
from .figure import empty, figure, section, table
from .markup import Markup
from .wording import be, counted, key, number

SHOWN = 20


def lost(summary: Row) -> Markup:
    lead = (
        "A delivery is lost without a trace when its time has run out, its router's log is whole, and yet no line "
        "says how it ended. In a sound router that does not happen: each one is a fault to be found."
    )
    return section(
        "lost", "Lost without a trace", lead, _examples(rows(summary, "lost"), whole(summary, "unaccounted"))
    )


def _examples(found: list[Row], total: int) -> Markup:
    title = "Examples to follow"
    if not found:
        words = (
            "There is none."
            if not total
            else f"{counted(total, 'delivery', 'deliveries')} {be(total)} lost, but the audit names no example."
        )
        return empty("lost-examples", title, words)
    shown = sum(whole(each, "count") for each in found)
    return figure(
        "lost-examples",
        title,
        see=f"{number(shown)} of {counted(total, 'delivery', 'deliveries')} lost without a trace, by the batch "
        "(“parcel”) in which they arrived. Lines with the same recipient or the same sender point at the fault.",
        do="Run the command at the router named in the line: it shows each hop of that message, each attempt, and "
        "where the trace ends. Keep that log; report the fault.",
        chart=_table(found),
        level="bad",
    )


def _table(found: list[Row]) -> Markup:
    return table(
        "Deliveries without an end",
        (
            ("lost", "n"),
            ("run at that router", ""),
            ("router", ""),
            ("recipient", ""),
            ("sender or group", ""),
            ("parcel", "n"),
        ),
        (
            (
                whole(each, "count"),
                why_command(each.get("id", "")),
                key(each.get("router")),
                key(each.get("recipient")),
                key(each.get("signer")),
                whole(each, "parcel"),
            )
            for each in found
        ),
        most=SHOWN,
    )
