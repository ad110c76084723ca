"""The difference between the clocks of two routers, as far as the order of events shows it."""

from __future__ import annotations

import math

from spark_analytics.report.reading import Row, real, rows
from spark_analytics.report.sentences import CLOCK_NS

from .charts import label, pc, plot, row
from .figure import empty, figure, table
from .markup import Markup, join, tag
from .wording import counted, key, lasting, number, short

SHOWN = 16
_NEAR_S = 1e-3
"""Seconds up to which the picture's scale is linear; beyond, it is logarithmic."""


def clocks(summary: Row) -> Markup:
    """Return the figure of how far apart the clocks of two routers are."""
    title = "How far apart the clocks of two routers are"
    bounded = [each for each in rows(summary, "clocks") if any(end is not None for end in _ends(each))]
    if not bounded:
        return empty(
            "clocks",
            title,
            "No message went from one of these routers to another, so nothing tells how their clocks differ.",
        )
    ranked = sorted(bounded, key=lambda each: (-_apart(each), str(each.get("router")), str(each.get("recipient"))))
    far = [each for each in ranked if _apart(each) * 1e9 > CLOCK_NS]
    near = [each for each in ranked if 0 < _apart(each) * 1e9 <= CLOCK_NS]
    reach = max([2 * _NEAR_S, *(abs(end) for each in ranked[:SHOWN] for end in _ends(each) if end is not None)])
    more = f" The {SHOWN} farthest apart of {number(len(ranked))} are drawn." if len(ranked) > SHOWN else ""
    return figure(
        "clocks",
        title,
        see=f"Of {counted(len(ranked), 'pair')}, {number(len(far)) if far else 'none'} differ by more than "
        f"{lasting(CLOCK_NS / 1e9)}, "
        f"{number(len(near)) if near else 'none'} by less, the others may show the same time. A bar covers every "
        "difference that the order "
        "of events allows: nothing arrives before it was sent. A bar that ends at the edge has no bound there. "
        f"The scale is logarithmic to both sides of no difference.{more}",
        do="Set the clock that is off, and keep it by NTP: messages expire by it." if far else "Nothing.",
        chart=tag(
            "div",
            *(_row(each, reach) for each in ranked[:SHOWN]),
            row(None, _axis(reach), None, "axis-row"),
            class_="rows roomy",
        ),
        same=table(
            "Clocks: the second router's minus the first's",
            (("first", ""), ("second", ""), ("at least", "n"), ("at most", "n")),
            ((key(e.get("router")), key(e.get("recipient")), *(lasting(end) for end in _ends(e))) for e in ranked),
        ),
        level="attention" if far else "",
    )


def _ends(each: Row) -> tuple[float | None, float | None]:
    """Return the least and greatest difference in seconds; None where there is no bound."""
    low, high = real(each, "lower_ns"), real(each, "upper_ns")
    return None if low is None else low / 1e9, None if high is None else high / 1e9


def _apart(each: Row) -> float:
    """Return the seconds by which the clocks differ at least; 0 if they may agree."""
    low, high = _ends(each)
    return max(0.0, 0.0 if low is None else low, 0.0 if high is None else -high)


def _said(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at most {lasting(high)}" if low is None else f"at least {lasting(low)}"
    if low > high:
        return f"changed by at least {lasting(low - high)}"
    return f"{lasting(low)} to {lasting(high)}"


def _verdict(each: Row) -> str:
    low, high = _ends(each)
    if low is not None and high is not None and low > high:
        return "one was set"
    apart = _apart(each)
    return "may agree" if not apart else "apart" if apart * 1e9 > CLOCK_NS else "close"


def _percent(seconds: float, reach: float) -> float:
    """Return the place in percent of the plot's width; no difference is the middle."""
    size = math.log10(1 + abs(seconds) / _NEAR_S) / math.log10(1 + reach / _NEAR_S)
    return 50 + math.copysign(46 * size, seconds)


def _row(each: Row, reach: float) -> Markup:
    low, high = _ends(each)
    ends = (0.0 if low is None else _percent(low, reach), 100.0 if high is None else _percent(high, reach))
    left, right = min(ends), max(ends)
    said, verdict = _said(low, high), _verdict(each)
    words = f"clock of {short(each.get('recipient'))} minus that of {short(each.get('router'))}: {said}"
    bar = tag(
        "rect",
        tag("title", words),
        x=pc(left),
        width=pc(max(right - left, 0.5)),
        y=15,
        height=10,
        class_="s-expired" if verdict in ("apart", "one was set") else "s-acked",
    )
    drawing = plot(40, words, tag("line", x1="50%", x2="50%", y1=0, y2=40, class_="base"), bar, below=0)
    name = join(key(each.get("recipient")), " against ", key(each.get("router")))
    return row(name, drawing, join(tag("b", verdict), tag("span", said, class_="fine")), "hop")


def _axis(reach: float) -> Markup:
    """Draw the axis with both ends, zero, and the points half-way on the logarithmic scale."""
    half = _NEAR_S * ((1 + reach / _NEAR_S) ** 0.5 - 1)
    ticks = (
        (-reach, "start", ""),
        (-half, "middle", " wide"),
        (0.0, "middle", ""),
        (half, "middle", " wide"),
        (reach, "end", ""),
    )
    marks = [
        label(pc(_percent(at, reach)), 14, ("+" if at > 0 else "") + lasting(at), f"tick{wide}", text_anchor=anchor)
        for at, anchor, wide in ticks
    ]
    title = label("0", 32, "difference of the clocks, logarithmic", "axis-title")
    return plot(0, "axis: difference of the clocks, logarithmic", *marks, title, below=40)
