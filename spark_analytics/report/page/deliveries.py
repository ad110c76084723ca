"""Deliveries and losses over time, and the reasons for which deliveries ended without arriving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_analytics.report.reading import Row, binned, grouped, rows, whole, words
from spark_analytics.report.reasons import SENTENCES

from .charts import Lane, Linear, TimeAxis, bars, compared, grid, hits, label, lanes, pc, plot, stretched, time_ticks
from .figure import empty, figure, section, sentences, table
from .markup import Markup, join, tag
from .states import NAMES, NOT_ARRIVED, named
from .wording import be, counted, key, number, share, step_text

REASONS_SHOWN = 12
_HEIGHT = 220
_NOT_ENDS = ("forwarded", "deferred", "delivered", "acked", "duplicate")


def deliveries(summary: Row, axis: TimeAxis) -> Markup:
    lead = (
        "When were deliveries owed, and what became of them? A window holds what was accepted in it, whenever its "
        "end came. What did not arrive is drawn again below on scales of its own, because a loss of one in a "
        "million is a loss."
    )
    return section(
        "deliveries", "Deliveries and losses", lead, _over_time(summary, axis), _why(rows(summary, "reasons"))
    )


def _over_time(summary: Row, axis: TimeAxis) -> Markup:
    found = rows(summary, "windows")
    series = binned(found, axis.place, axis.count, NAMES)
    totals = [sum(series[name][i] for name in NAMES) for i in range(axis.count)]
    title = "What became of the deliveries owed, by the time at which their message was accepted"
    if not any(totals):
        return empty(
            "deliveries-time", title, "Nothing was accepted in the time that was audited, so there is nothing to draw."
        )
    shown = [name for name in NOT_ARRIVED if any(series[name])]
    return figure(
        "deliveries-time",
        title,
        see=_see(axis, series, totals),
        do=_do(series, _gaps(summary)),
        chart=join(
            _legend(series), tag("div", _stack(axis, series, totals), class_="rows frame"), _losses(axis, series, shown)
        ),
        same=_windows(axis, series, totals),
        level="bad" if any(series["unaccounted"]) else "",
    )


def _windows(axis: TimeAxis, series: dict[str, list[int]], totals: Sequence[int]) -> Markup:
    """Return the table of the windows in which something was owed, and how many there are beside them."""
    idle = sum(1 for total in totals if not total)
    said = f"{counted(idle, 'window')} in which nothing was owed {be(idle)} left out."
    return join(
        table(
            "Deliveries by window and state",
            (("window, UTC", ""), ("owed", "n"), *((name, "n") for name in NAMES)),
            ((axis.window(i), n, *(series[name][i] for name in NAMES)) for i, n in enumerate(totals) if n),
            most=240,
        ),
        tag("p", said, class_="fine") if idle else None,
    )


def _legend(series: dict[str, list[int]]) -> Markup:
    return tag(
        "p",
        *(tag("span", named(name), " ", tag("b", number(sum(series[name])))) for name in NAMES if any(series[name])),
        class_="legend",
    )


def _stack(axis: TimeAxis, series: dict[str, list[int]], totals: Sequence[int]) -> Markup:
    """Draw all states stacked; arrows above mark windows with a loss."""
    scale = Linear(max(totals), _HEIGHT)
    below = [0] * axis.count
    marks = []
    for name in NAMES:
        above = [low + n for low, n in zip(below, series[name], strict=True)]
        marks.append(bars([scale.at(v) for v in above], [scale.at(v) for v in below], f"s-{name}"))
        below = above
    texts = {
        i: f"{axis.window(i)}: {number(total)} owed; "
        + ", ".join(f"{name} {number(series[name][i])}" for name in NAMES if series[name][i])
        for i, total in enumerate(totals)
    }
    pointers = (_pointer(axis, i, scale.at(totals[i])) for i, n in enumerate(series["unaccounted"]) if n)
    return tag(
        "div",
        tag(
            "div",
            plot(
                _HEIGHT,
                "Deliveries owed over time, stacked by state",
                grid(scale, f"deliveries owed per {step_text(axis.step).removeprefix('1 ')}"),
                stretched(axis.count, _HEIGHT, *marks),
                *pointers,
                _worst(axis, series["unaccounted"], totals, scale),
                time_ticks(axis, _HEIGHT),
                hits(axis, _HEIGHT, texts),
            ),
            class_="row-plot",
        ),
        class_="row",
    )


def _pointer(axis: TimeAxis, place: int, y: float) -> Markup:
    x = pc(100 * (place + 0.5) / axis.count)
    return tag(
        "svg",
        tag("path", d=f"M0 {y - 3:.1f}l-4.500 -8h9z", class_="s-unaccounted"),
        x=x,
        class_="marks",
        width=1,
        height=1,
    )


def _worst(axis: TimeAxis, lost: Sequence[int], totals: Sequence[int], scale: Linear) -> Markup | None:
    """Label the window with the greatest loss with its count."""
    if not any(lost):
        return None
    place = max(range(len(lost)), key=lambda i: lost[i])
    at = 100 * (place + 0.5) / axis.count
    anchor = "start" if at < 15 else "end" if at > 85 else "middle"
    return label(
        pc(at),
        max(scale.at(totals[place]) - 16, 2),
        f"{number(lost[place])} unaccounted",
        "note alarm",
        text_anchor=anchor,
    )


def _losses(axis: TimeAxis, series: dict[str, list[int]], shown: Sequence[str]) -> Markup:
    if not shown:
        return tag("p", "Everything that was owed arrived: there is no loss to draw.", class_="nothing")
    found = [Lane(named(name), series[name], f"s-{name}", name) for name in shown]
    return lanes(axis, found, "All but what arrived: deliveries")


def _see(axis: TimeAxis, series: dict[str, list[int]], totals: Sequence[int]) -> Markup:
    busiest = max(range(axis.count), key=lambda i: totals[i])
    lost = series["unaccounted"]
    arrived = sum(series["delivered"]) + sum(series["acked"])
    first = (
        f"{share(arrived, sum(totals))} of {number(sum(totals))} arrived or were taken over by the next router. The "
        f"busiest window was {axis.window(busiest)}, with {number(totals[busiest])}."
    )
    if not any(lost):
        return sentences(first, "No window has a loss without a trace.")
    worst = max(range(axis.count), key=lambda i: lost[i])
    bad = sum(1 for n in lost if n)
    return sentences(
        first,
        tag(
            "strong",
            f"{number(sum(lost))} were lost without a trace, in {counted(bad, 'window')}; the most, "
            f"{number(lost[worst])}, in that of {axis.window(worst)}.",
        ),
    )


def _gaps(summary: Row) -> str:
    """Return what to do about the parts of the logs that this figure lacks; "" if it lacks none."""
    if rows(summary, "holes"):
        return (
            "Bring the missing parts of the logs (see “Logs”) and audit again: what was accepted in them is not here."
        )
    if words(summary, "problems"):
        return "Look at the problems with the files (see “Logs”): what they say was not read is not here."
    return ""


def _do(series: dict[str, list[int]], gaps: str) -> str:
    if any(series["unaccounted"]):
        return (
            "Follow the examples under “Lost without a trace”: they name messages and the command that shows their way."
        )
    if any(series["unknown"]):
        return "Bring the missing parts of the logs (see “Logs”) and audit again: then they can be judged."
    if sum(sum(series[name]) for name in ("expired", "refused", "dropped", "evicted")):
        rising = "If a row below rises, the reasons say why, and the queues say for whom."
        return f"{gaps or 'Nothing is lost.'} {rising}"
    return gaps or "Nothing."


def _why(found: list[Row]) -> Markup:
    ended = [
        row for row in found if row.get("event") not in _NOT_ENDS and not row.get("at_door") and whole(row, "count")
    ]
    title = "Why deliveries ended without arriving"
    if not ended:
        return empty(
            "reasons", title, "No delivery was expired, refused, dropped or evicted, so there are no reasons to tell."
        )
    sums = _by_reason(ended)
    drawn = [
        (
            join(named(event) if event in NAMES else event, " ", tag("span", reason or "no reason", class_="fine")),
            n,
            f"s-{event}" if event in NAMES else "s-pending",
            SENTENCES.get(str(reason)),
        )
        for event, reason, n in sums[:REASONS_SHOWN]
    ]
    return figure(
        "reasons",
        title,
        see=f"The most frequent reason was {_reason(sums[0])}, with {number(sums[0][2])}. Bars compare counts of "
        "deliveries.",
        do="If one reason stands out, find its router in the table and ask that router's operator; “ttl-expired” "
        "and full queues usually mean a recipient that is away or too slow.",
        chart=compared(drawn, "Deliveries, by how they ended and why"),
        same=table(
            "Reasons by router",
            (("event", ""), ("reason", ""), ("router", ""), ("deliveries", "n")),
            (
                (row.get("event"), row.get("reason") or "no reason", key(row.get("router")), whole(row, "count"))
                for row in sorted(ended, key=lambda row: -whole(row, "count"))
            ),
        ),
    )


def _by_reason(ended: list[Row]) -> list[tuple[Any, Any, int]]:
    """Return (event, reason, count of deliveries), the greatest count first."""
    return sorted(
        (
            (event, reason, sum(whole(row, "count") for row in each))
            for (event, reason), each in grouped(ended, "event", "reason").items()
        ),
        key=lambda row: (-row[2], str(row[0]), str(row[1])),
    )


def _reason(row: tuple[object, object, int]) -> str:
    return f"“{row[1] or 'none'}” ({row[0]})"
