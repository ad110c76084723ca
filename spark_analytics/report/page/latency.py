"""The time that messages took: percentiles over time, and for each hop."""

from __future__ import annotations

from collections.abc import Sequence

from spark_analytics.report.reading import Row, minute, part, real, rows, whole

from .charts import Decades, TimeAxis, grid, hits, label, line, pc, plot, row, spread, stretched, time_ticks
from .figure import empty, figure, section, sentences, table
from .markup import Markup, join, tag
from .wording import key, milliseconds, number, short

HOPS_MAX = 16
_HEIGHT = 190
_PERCENTS = ("p50", "p95", "p99", "max")
_EVENTS = (
    ("delivered", "latency_ms", "from acceptance to the recipient's confirmation"),
    ("acked", "custody_ms", "from acceptance until the next router had taken the message over"),
)


def latency(summary: Row, axis: TimeAxis) -> Markup:
    lead = (
        "How long did a router keep what it accepted? p50 is the middle: half were faster. p95 and p99 are the "
        "slowest in 20 and in 100, the ones that people notice. Both ends are read from one router's clock, so no "
        "clocks are compared. The vertical scale is logarithmic: each line is ten times the one below."
    )
    over = (_over_time(summary, axis, *each) for each in _EVENTS)
    return section("latency", "Latency", lead, *over, _hops(rows(summary, "hops")))


def _over_time(summary: Row, axis: TimeAxis, event: str, total: str, what: str) -> Markup:
    name, title = f"latency-{event}", f"Time until {event}, {what}"
    found: dict[int, Row] = {}
    for each in rows(summary, "latency"):
        at = minute(each.get("window"))
        if each.get("event") == event and at is not None and 0 <= axis.place(at) < axis.count:
            found[axis.place(at)] = each
    known = [v / 1000 for each in found.values() for p in _PERCENTS if (v := real(each, p)) is not None]
    if not known:
        return empty(name, title, f"No delivery was {event} in the time that was audited, so there is no time to show.")
    scale = Decades(max(min(known), 1e-6), max(known), _HEIGHT)
    series = {p: [_at(scale, found.get(i), p) for i in range(axis.count)] for p in _PERCENTS}
    sums = part(summary, total)
    return figure(
        name,
        title,
        see=_see(axis, found, sums),
        do=_do(found),
        chart=tag(
            "div",
            tag("div", tag("div", _drawing(axis, scale, series, found, event), class_="row-plot"), class_="row"),
            class_="rows frame lined",
        ),
        same=table(
            f"Time until {event} by window",
            (("window, UTC", ""), ("deliveries", "n"), *((p, "n") for p in _PERCENTS)),
            (
                (axis.window(i), whole(each, "count"), *(milliseconds(real(each, p)) for p in _PERCENTS))
                for i, each in sorted(found.items())
            ),
            most=240,
        ),
    )


def _at(scale: Decades, each: Row | None, percent: str) -> float | None:
    value = real(each, percent) if each else None
    return None if value is None else scale.at(value / 1000)


def _drawing(
    axis: TimeAxis, scale: Decades, series: dict[str, list[float | None]], found: dict[int, Row], event: str
) -> Markup:
    ends = {p: next((y for y in reversed(series[p]) if y is not None), 0.0) for p in _PERCENTS}
    order = tuple(reversed(_PERCENTS))  # of two lines that end at one height, the greater one stands above
    places = spread([ends[p] for p in order], 14, _HEIGHT)
    texts = {
        i: f"{axis.window(i)}: " + ", ".join(f"{p} {milliseconds(real(each, p))}" for p in _PERCENTS)
        for i, each in found.items()
    }
    return plot(
        _HEIGHT,
        f"Percentiles of the time until {event}, over time, logarithmic",
        grid(scale, "time, logarithmic"),
        stretched(axis.count, _HEIGHT, *(line(series[p], f"l-{p}") for p in _PERCENTS)),
        *(label("100%", y, p, f"note n-{p}", dx=8, dy="0.32em") for p, y in zip(order, places, strict=True)),
        time_ticks(axis, _HEIGHT),
        hits(axis, _HEIGHT, texts),
    )


def _see(axis: TimeAxis, found: dict[int, Row], sums: Row) -> str:
    worst = max(found, key=lambda i: real(found[i], "p99") or 0.0)
    told = ", ".join(f"{p} {milliseconds(real(sums, p))}" for p in _PERCENTS if real(sums, p) is not None)
    slowest = f"The slowest window was {axis.window(worst)}, with a p99 of {milliseconds(real(found[worst], 'p99'))}."
    return f"Over the whole time: {told}. {slowest}" if told else slowest


def _do(found: dict[int, Row]) -> str:
    p99 = sorted(value for each in found.values() if (value := real(each, "p99")) is not None)
    if p99 and p99[-1] > 10 * p99[len(p99) // 2]:
        return (
            "One time was more than ten times slower than usual. Look at the same time in “Queues” (did one fill?) "
            "and in “Routes and links” (did a link go up and down?)."
        )
    return "Nothing while the lines stay level. If p99 rises alone, a recipient is slow; if p50 too, the router is."


def _hops(found: list[Row]) -> Markup:
    title = "Time at each hop: from a router to its own recipients, and to the next router"
    known = [each for each in found if real(each, "p50") is not None]
    if not known:
        return empty("hops", title, "No hop has a message that arrived, so there is no time to compare.")
    ranked = sorted(known, key=lambda each: -(real(each, "p99") or 0.0))
    shown = ranked[:HOPS_MAX]
    values = [v / 1000 for each in shown for p in _PERCENTS if (v := real(each, p)) is not None]
    scale = Decades(max(min(values), 1e-6), max(values), 0)
    more = f" The {len(shown)} slowest of {number(len(ranked))} are drawn." if len(ranked) > len(shown) else ""
    return figure(
        "hops",
        title,
        see=join(
            "Each bar runs from p50 over p95 (tick) to p99, the dot is the greatest. The slowest by p99 is from ",
            _hop(ranked[0]),
            f", with {milliseconds(real(ranked[0], 'p99'))}.{more}",
        ),
        do="If one hop is slow and the others are not, look at that link or that recipient, not at the router.",
        chart=tag(
            "div",
            *(_hop_row(each, scale) for each in shown),
            row(None, _hop_axis(scale), None, "axis-row"),
            class_="rows",
        ),
        same=table(
            "Time by hop",
            (("router", ""), ("to", ""), ("event", ""), ("deliveries", "n"), *((p, "n") for p in _PERCENTS)),
            (
                (
                    key(each.get("router")),
                    key(each.get("recipient"), "its own recipients"),
                    each.get("event", ""),
                    whole(each, "count"),
                    *(milliseconds(real(each, p)) for p in _PERCENTS),
                )
                for each in ranked
            ),
        ),
    )


def _hop(each: Row) -> Markup:
    return join(key(each.get("router")), " to ", key(each.get("recipient"), "its own recipients"))


def _hop_text(each: Row) -> str:
    to = short(each.get("recipient")) if each.get("recipient") else "its own recipients"
    return f"{short(each.get('router'))} to {to}"


def _hop_row(each: Row, scale: Decades) -> Markup:
    at = {p: 100 * scale.fraction((real(each, p) or 0.0) / 1000) for p in _PERCENTS}
    class_ = "s-delivered" if each.get("event") == "delivered" else "s-acked"
    words = f"{_hop_text(each)}: " + ", ".join(f"{p} {milliseconds(real(each, p))}" for p in _PERCENTS)
    drawing = plot(
        38,
        words,
        *_decade_lines(scale, 38),
        tag("rect", x=pc(at["p50"]), width=pc(max(at["p99"] - at["p50"], 0.3)), y=15, height=8, class_=class_),
        tag("line", x1=pc(at["p95"]), x2=pc(at["p95"]), y1=11, y2=27, class_="tickmark"),
        tag("circle", cx=pc(at["max"]), cy=19, r=3, class_=class_),
        tag("g", tag("rect", tag("title", words), x=0, y=0, width="100%", height=38), class_="hits"),
        below=0,
    )
    name = sentences(key(each.get("router")), "→", key(each.get("recipient"), "its own recipients"))
    value = join(
        tag("b", milliseconds(real(each, "p50"))), tag("span", f"p99 {milliseconds(real(each, 'p99'))}", class_="fine")
    )
    return row(name, drawing, value, "hop")


def _decade_lines(scale: Decades, height: int) -> Sequence[Markup]:
    return [tag("line", x1=pc(x), x2=pc(x), y1=0, y2=height, class_="grid") for x, _ in _decades(scale)]


def _decades(scale: Decades) -> list[tuple[float, str]]:
    tall = Decades(scale.lowest, scale.highest, 100)
    return [(100 - y, words) for y, words in tall.ticks()]


def _hop_axis(scale: Decades) -> Markup:
    marks = []
    for i, (x, words) in enumerate(_decades(scale)):
        wide = " wide" if i % 2 else ""
        anchor = "start" if x < 3 else "end" if x > 97 else "middle"
        marks.append(label(pc(x), 14, words, f"tick{wide}", text_anchor=anchor))
    return plot(0, "axis: time, logarithmic", *marks, label("0", 32, "time, logarithmic", "axis-title"), below=40)
