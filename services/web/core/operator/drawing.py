"""The pictures of the operator's page: an hour as a curve, queues as bars, neighbours as a plan around this node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spark_analytics.report.page.charts import f
from spark_analytics.report.page.markup import Markup, join, tag

WIDTH, HEIGHT = 720, 96
BRANCH, ROW = 34, 30
WELL, AWAY, PROBLEM, SHUT = "well", "away", "problem", "shut"
"""How a neighbour is drawn: each with a shape and a line of its own, not by colour alone."""


class Branch(NamedTuple):
    """A neighbour in the plan. `note`: what stands beside its name."""

    name: str
    state: str
    note: str = ""


def curve(values: Sequence[float | None], said: str, class_: str) -> Markup:
    """Draw one line over its area; where a value is missing there is nothing. `said`: the picture in words."""
    top = max(*(value or 0 for value in values), 1e-9)
    step = WIDTH / max(len(values) - 1, 1)
    runs: list[list[str]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{f(at * step)},{f(HEIGHT - 2 - (HEIGHT - 8) * value / top)}")
    marks = [_run(points, class_) for points in runs if points]
    base = tag("line", x1=0, x2=WIDTH, y1=HEIGHT - 1, y2=HEIGHT - 1, class_="base thin")
    return tag(
        "svg",
        tag("title", said),
        *marks,
        base,
        viewbox=f"0 0 {WIDTH} {HEIGHT}",
        preserveaspectratio="none",
        role="img",
        aria_label=said,
        class_="curve",
    )


def _run(points: list[str], class_: str) -> Markup:
    first, last = points[0].partition(",")[0], points[-1].partition(",")[0]
    area = f"{first},{HEIGHT - 1} {' '.join(points)} {last},{HEIGHT - 1}"
    ends = points if len(points) > 1 else [*points, f"{f(float(first) + 1)},{points[0].partition(',')[2]}"]
    return join(
        tag("polygon", points=area, class_=f"area a-{class_}"),
        tag("polyline", points=" ".join(ends), class_=f"line l-{class_}"),
    )


def bar(share: float, level: str, said: str) -> Markup:
    """Draw how full something is, from 0 to 1."""
    width = max(100 * min(share, 1.0), 0.8) if share else 0
    return tag(
        "svg",
        tag("rect", width=100, height=10, class_="track"),
        tag("rect", width=f(width), height=10, class_=f"fill {level}"),
        viewbox="0 0 100 10",
        preserveaspectratio="none",
        role="img",
        aria_label=said,
        class_="bar",
    )


def plan(me: str, branches: Sequence[Branch], said: str) -> Markup:
    """Draw this node with its neighbours on both sides, and for narrow screens below it; `said`: the same in words."""
    return join(_wide(me, branches, said), _narrow(me, branches, said))


def _wide(me: str, branches: Sequence[Branch], said: str) -> Markup:
    half = (len(branches) + 1) // 2
    height = max(half * BRANCH + 40, 120)
    cx, cy, marks = WIDTH / 2, height / 2, list[Markup]()
    for side, members in ((1, branches[:half]), (-1, branches[half:])):
        for at, one in enumerate(members):
            x, y = cx + side * 130, cy + (at - (len(members) - 1) / 2) * BRANCH
            path = f"M{f(cx)} {f(cy)}C{f(cx + side * 70)} {f(cy)} {f(cx + side * 60)} {f(y)} {f(x)} {f(y)}"
            marks += [
                tag("path", d=path, class_=f"way {one.state}"),
                _dot(x, y, one.state),
                _words(one, x + side * 16, y + 5, "start" if side > 0 else "end"),
            ]
    marks += [
        tag("circle", cx=f(cx), cy=f(cy), r=13, class_="here"),
        tag("text", me, x=f(cx), y=f(cy + 36), text_anchor="middle", class_="me"),
    ]
    return _picture(marks, WIDTH, height, said, "plan wide-plan")


def _narrow(me: str, branches: Sequence[Branch], said: str) -> Markup:
    height = 48 + len(branches) * ROW
    marks = list[Markup]()
    for at, one in enumerate(branches):
        y = 60 + at * ROW
        path = f"M16 20V{y - 10}Q16 {y} 26 {y}H44"
        marks += [
            tag("path", d=path, class_=f"way {one.state}"),
            _dot(48, y, one.state),
            _words(one, 64, y + 5, "start"),
        ]
    marks += [
        tag("circle", cx=16, cy=18, r=11, class_="here"),
        tag("text", me, x=36, y=23, class_="me"),
    ]
    return _picture(marks, 348, height, said, "plan narrow-plan")


def _picture(marks: Sequence[Markup], width: int, height: float, said: str, class_: str) -> Markup:
    return tag("svg", *marks, viewbox=f"0 0 {width} {f(height)}", role="img", aria_label=said, class_=class_)


def _words(one: Branch, x: float, y: float, anchor: str) -> Markup:
    note = tag("tspan", f" {one.note}", class_="note") if one.note else None
    return tag("text", tag("title", one.name), cut(one.name, 22), note, x=f(x), y=f(y), text_anchor=anchor)


def _dot(x: float, y: float, state: str) -> Markup:
    """Return the mark of a neighbour: a disc, a ring, a triangle or a square."""
    if state == PROBLEM:
        return tag("path", d=f"M{f(x)} {f(y - 9)}L{f(x + 9)} {f(y + 7)}H{f(x - 9)}z", class_=f"dot {state}")
    if state == SHUT:
        return tag("rect", x=f(x - 7), y=f(y - 7), width=14, height=14, class_=f"dot {state}")
    return tag("circle", cx=f(x), cy=f(y), r=7, class_=f"dot {state}")


def cut(text: str, most: int) -> str:
    """Return a name short enough for its place."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
