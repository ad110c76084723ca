"""Marks and axes of the pictures: SVG as wide as its column, with text of constant size.

Horizontal coordinates are in percent of the plot (or in units of a stretched inner drawing), vertical ones in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

from .markup import Markup, join, tag
from .wording import clock, day, lasting, moment, number, step_text, window_text

WINDOWS_MAX = 240
_TICK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080)
_UNIT = 10  # width of one window in the stretched drawing


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """A time axis of `count` windows of `step` minutes from minute `start` on."""

    start: int
    step: int
    count: int

    @classmethod
    def over(cls, minutes: Iterable[int], step: int) -> TimeAxis:
        """Return an axis for all windows that begin at these minutes, with wider windows if they are too many."""
        found = sorted(set(minutes))
        if not found:
            return cls(0, max(1, step), 0)
        step = max(1, step)
        while found[-1] // step - found[0] // step >= WINDOWS_MAX:
            step *= 2
        start = found[0] // step * step
        return cls(start, step, (found[-1] - start) // step + 1)

    def place(self, minute: int) -> int:
        return (minute - self.start) // self.step

    def percent(self, minute: float) -> float:
        return 100 * (minute - self.start) / (self.step * self.count)

    @property
    def end(self) -> int:
        return self.start + self.step * self.count

    def window(self, place: int) -> str:
        return window_text(self.start + place * self.step, self.step)

    def ticks(self, most: int = 8) -> list[tuple[float, str, bool]]:
        """Return (percent, label, whether it stays on a narrow page), at most `most` + 1 of them."""
        length = self.step * self.count
        step = next((each for each in _TICK_STEPS if length / each <= most), 10080 * math.ceil(length / (10080 * most)))
        places = list(range(-(-self.start // step) * step, self.end + 1, step))
        stays = 1 if len(places) <= 4 else 2
        return [
            (self.percent(at), day(at) if at % 1440 == 0 else clock(at), place % stays == 0)
            for place, at in enumerate(places)
        ]

    def caption(self) -> Markup:
        step = tag("tspan", f" · one step is {step_text(self.step)}", class_="wide")
        return join(f"UTC, from {moment(self.start)}", step)


class Scale(Protocol):
    """A vertical scale: values upward over `height` pixels."""

    height: int

    def at(self, value: float) -> float: ...
    def ticks(self) -> list[tuple[float, str]]: ...


class Linear:
    """A linear scale from 0 to a round number at or above `top`."""

    def __init__(self, top: float, height: int) -> None:
        self.height = height
        self._step = _round_step(max(top, 1) / 3)
        self.top = self._step * math.ceil(max(top, 1) / self._step)

    def at(self, value: float) -> float:
        return self.height * (1 - min(value, self.top) / self.top)

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.at(self._step * i), _tick(self._step * i)) for i in range(round(self.top / self._step) + 1)]


class Decades:
    """A logarithmic scale of seconds, in powers of ten that hold `low` and `high`."""

    def __init__(self, low: float, high: float, height: int) -> None:
        self.height = height
        self._low = math.floor(math.log10(max(low, 1e-9)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(high, 1e-9))))

    @property
    def lowest(self) -> float:
        return 10.0**self._low

    @property
    def highest(self) -> float:
        return 10.0**self._high

    def fraction(self, value: float) -> float:
        exponent = math.log10(max(value, 1e-9))
        return max(0.0, min(1.0, (exponent - self._low) / (self._high - self._low)))

    def at(self, value: float) -> float:
        return self.height * (1 - self.fraction(value))

    def ticks(self) -> list[tuple[float, str]]:
        every = 1 if self._high - self._low <= 6 else 2
        return [(self.at(10.0**e), _power(e)) for e in range(self._low, self._high + 1, every)]


def _tick(value: int) -> str:
    """Return a number as short as an axis needs: 5,000, 1.5 M."""
    return number(value) if value < 10**6 else f"{number(value / 10**6)} M"


def _power(exponent: int) -> str:
    """Return 10 ** exponent seconds as text: 10 ms, 100 s."""
    return f"{number(10**exponent)} s" if exponent > 1 else lasting(10.0**exponent)


def _round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... that is at least `least`."""
    power: int = 10 ** max(0, math.floor(math.log10(max(least, 1))))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least)


def f(value: float) -> str:
    """Return a coordinate with at most two decimal places."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def pc(value: float) -> str:
    return f"{f(value)}%"


def bars(tops: Sequence[float], bottoms: Sequence[float], class_: str) -> Markup | None:
    """Return bars as one path: in window i from bottoms[i] up to tops[i], pixels from above; none where they meet."""
    gap = 0.6 if len(tops) > 2 else 0.3
    left, width = gap, _UNIT - 2 * gap
    path = "".join(
        f"M{f(i * _UNIT + left)} {f(bottom)}V{f(top)}h{f(width)}V{f(bottom)}z"
        for i, (top, bottom) in enumerate(zip(tops, bottoms, strict=True))
        if bottom - top > 0.005
    )
    return tag("path", d=path, class_=class_) if path else None


def line(points: Sequence[float | None], class_: str) -> Markup | None:
    """Return a line through the middles of the windows; missing values break it, and a lone value is a dot."""
    path, dots, last = "", "", len(points) - 1
    for i, y in enumerate(points):
        if y is None:
            continue
        is_first, is_last = i == 0 or points[i - 1] is None, i == last or points[i + 1] is None
        place = f"{f((i + 0.5) * _UNIT)} {f(y)}"
        if is_first and is_last:
            dots += f"M{place}h0"
        else:
            path += f"{'M' if is_first else 'L'}{place}"
    lines = ((path, f"line {class_}"), (dots, f"line {class_} dot"))
    return join(*(tag("path", d=d, class_=name) for d, name in lines if d)) if path or dots else None


def area(points: Sequence[float], bottom: float, class_: str) -> Markup | None:
    """Return the area below a line through the middles of the windows."""
    if not points:
        return None
    top = "".join(f"L{f((i + 0.5) * _UNIT)} {f(y)}" for i, y in enumerate(points))
    return tag("path", d=f"M{_UNIT / 2} {f(bottom)}{top}V{f(bottom)}z", class_=class_)


def stretched(units: float, height: int, *marks: object) -> Markup:
    """Return marks drawn `units` windows wide, stretched to the plot."""
    return tag(
        "svg",
        *marks,
        viewbox=f"0 0 {f(units * _UNIT)} {height}",
        preserveaspectratio="none",
        width="100%",
        height=height,
        class_="marks",
    )


def label(x: str, y: float, words: object, class_: str = "tick", **more: object) -> Markup:
    return tag("text", words, x=x, y=f(y), class_=class_, **more)


def grid(scale: Scale, title: str) -> Markup:
    """Return the lines and labels of the vertical axis, with its title on top."""
    lines = (
        join(
            tag("line", x1=0, x2="100%", y1=f(y), y2=f(y), class_="base" if y >= scale.height - 0.01 else "grid"),
            label("0", y, words, "tick ytick", dx=-8, dy="0.32em"),
        )
        for y, words in scale.ticks()
    )
    return join(*lines, label("0", -14, title, "axis-title"))


def time_ticks(axis: TimeAxis, height: int, most: int = 8) -> Markup:
    """Return the labels of the time axis below a plot of that height, at most `most`, with its caption."""
    marks = []
    for at, words, stays in axis.ticks(most):
        wide = "" if stays else " wide"
        anchor = "start" if at < 3 else "end" if at > 97 else "middle"
        marks.append(tag("line", x1=pc(at), x2=pc(at), y1=height, y2=height + 5, class_=f"base{wide}"))
        marks.append(label(pc(at), height + 18, words, f"tick{wide}", text_anchor=anchor))
    return join(*marks, label("0", height + 36, axis.caption(), "axis-title"))


def hits(axis: TimeAxis, height: int, texts: Mapping[int, str]) -> Markup:
    """Return the texts that a pointer shows over each window."""
    width = 100 / axis.count if axis.count else 100
    return tag(
        "g",
        *(
            tag("rect", tag("title", words), x=pc(i * width), width=pc(width), y=0, height=height)
            for i, words in sorted(texts.items())
        ),
        class_="hits",
    )


def plot(height: int, title: str, *marks: object, below: int = 42) -> Markup:
    """Return the drawing; `title` is its name for readers who do not see it."""
    return tag("svg", *marks, class_="plot", role="img", aria_label=title, height=height + below, width="100%")


class Lane(NamedTuple):
    """One row of a picture: its name, its values along the axis, its colour's class, and what the values count."""

    name: object
    values: Sequence[int]
    class_: str
    unit: str


def lanes(axis: TimeAxis, found: Sequence[Lane], what: str, height: int = 30) -> Markup:
    """Draw rows of bars over one time axis, each with its own scale; sum and peak stand beside it."""
    title = f"{what} per {step_text(axis.step).removeprefix('1 ')}"
    each = (
        row(
            lane.name,
            plot(height, _lane_title(axis, lane, title), *_lane_marks(axis, lane, height), below=0),
            _sum_and_peak(lane),
            f"lane {lane.class_}-row",
        )
        for lane in found
    )
    how = tag("span", "Each row has a scale of its own, with its sum and peak beside it.", class_="fine")
    head = tag("p", f"{title}. ", how, class_="chart-title")
    foot = row(None, plot(0, "time axis", time_ticks(axis, 0)), None, "axis-row")
    return join(head, tag("div", *each, foot, class_="rows"))


def _sum_and_peak(lane: Lane) -> Markup:
    peak = f"peak {number(max(lane.values, default=0))}"
    return join(tag("b", number(sum(lane.values))), tag("span", peak, class_="fine"))


def _lane_title(axis: TimeAxis, lane: Lane, title: str) -> str:
    most = max(lane.values, default=0)
    when = f", in {axis.window(lane.values.index(most))}" if most else ""
    return f"{title}, {lane.unit}: {number(sum(lane.values))} in all, {number(most)} at most{when}"


def _lane_marks(axis: TimeAxis, lane: Lane, height: int) -> Iterable[Markup | None]:
    top = max([1, *lane.values])
    tops = [height - (max(2.5, (height - 2) * v / top) if v > 0 else 0) for v in lane.values]
    yield tag("line", x1=0, x2="100%", y1=height, y2=height, class_="base")
    yield stretched(axis.count, height, bars(tops, [height] * len(tops), lane.class_))
    texts = {i: f"{axis.window(i)}: {number(v)} {lane.unit}" for i, v in enumerate(lane.values) if v > 0}
    yield hits(axis, height, texts)


def row(name: object, drawing: Markup, value: object, class_: str) -> Markup:
    """Return a row of a picture: name, drawing, value."""
    return tag(
        "div",
        tag("div", name, class_="row-name") if name is not None else None,
        tag("div", drawing, class_="row-plot"),
        tag("div", value, class_="row-value") if value is not None else None,
        class_=f"row {class_}",
    )


def compared(found: Sequence[tuple[object, int, str, object]], title: str) -> Markup:
    """Draw rows (name, number, class of its colour, note or None) as horizontal bars on one scale, under a title."""
    most = max([1, *(n for _, n, _, _ in found)])
    each = (
        tag(
            "div",
            tag("div", name, class_="row-name"),
            tag("div", _level_bar(100 * n / most, class_), class_="row-plot"),
            tag("div", tag("b", number(n)), class_="row-value"),
            tag("div", note, class_="row-note") if note is not None else None,
            class_="row",
        )
        for name, n, class_, note in found
    )
    return join(tag("p", title, class_="chart-title"), tag("div", *each, class_="rows"))


def _level_bar(percent: float, class_: str) -> Markup:
    bar = tag("rect", x=0, y=4, height=12, width=pc(max(percent, 0.4)), class_=class_)
    return tag("svg", bar, class_="plot", width="100%", height=20, aria_hidden="true")


def spread(places: Sequence[float], least: float, most: float) -> list[float]:
    """Move the places apart, keeping their order, until neighbours are at least `least` apart; none goes beyond `most`
    if there is room before it."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + least)
    for rank, i in enumerate(reversed(order)):
        moved[i] = min(moved[i], most - rank * least)
    return moved
