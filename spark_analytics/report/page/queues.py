"""The depth of queues, and when they will be full at the present rate."""

from __future__ import annotations

import math
from typing import NamedTuple

from spark_analytics.report.reading import Row, minute, real, rows, whole, whole_or_none
from spark_analytics.report.sentences import SOON_S, fills_within

from .charts import Linear, TimeAxis, area, f, grid, hits, label, line, pc, plot, stretched, time_ticks
from .figure import empty, figure, section, table
from .markup import Markup, join, tag
from .wording import counted, key, lasting, number, short

DRAWN_MAX = 6
ALARM_S = 3 * 86_400
"""Seconds ahead within which a queue that will be full is drawn in red, if it is not nearly empty."""
_HEIGHT = 96


class Queue(NamedTuple):
    """One recipient's queue at one router. `open`: messages waiting, by place on the axis (repeated while
    unchanged)."""

    router: object
    recipient: object
    open: list[int]
    depth_max: int
    limit: int | None
    full_in_s: float | None
    oldest_due_s: float | None

    @property
    def now(self) -> int:
        return self.open[-1] if self.open else 0


def queues(summary: Row, axis: TimeAxis) -> Markup:
    lead = (
        "Who is behind? A message that its recipient has not confirmed waits in that recipient's queue. A queue "
        "that only grows ends in one of two ways: it is full and refuses what is new, or its oldest messages "
        "expire."
    )
    return section("queues", "Queues", lead, _figure(_read(rows(summary, "queues"), axis), axis))


def _read(found: list[Row], axis: TimeAxis) -> list[Queue]:
    return [_queue(each, axis) for each in found]


def _queue(each: Row, axis: TimeAxis) -> Queue:
    known: dict[int, int] = {}
    for window in rows(each, "windows"):
        at = minute(window.get("window"))
        if at is not None and 0 <= axis.place(at) < axis.count:
            known[axis.place(at)] = whole(window, "open")
    level, levels = 0, []
    for place in range(axis.count):
        level = known.get(place, level)
        levels.append(level)
    depth = max((whole(window, "depth_max") for window in rows(each, "windows")), default=0)
    return Queue(
        each.get("router"),
        each.get("recipient"),
        levels,
        max(depth, whole(each, "depth_max")),
        whole_or_none(each, "limit"),
        real(each, "full_in_s"),
        real(each, "oldest_due_s"),
    )


def _figure(found: list[Queue], axis: TimeAxis) -> Markup:
    title = "Messages waiting, by recipient, over time"
    waiting = [each for each in found if any(each.open)]
    if not waiting or not axis.count:
        return empty(
            "queue-depth", title, "No message had to wait for its recipient in any window, so no queue is drawn."
        )
    ranked = sorted(
        waiting,
        key=lambda each: (
            math.inf if each.full_in_s is None else each.full_in_s,
            -max(each.open, default=0),
            str(each.recipient),
        ),
    )
    filling = [each for each in ranked if each.full_in_s is not None]
    return figure(
        "queue-depth",
        title,
        see=_see(ranked, filling),
        do=_do(filling),
        chart=tag("div", *(_panel(each, axis) for each in ranked[:DRAWN_MAX]), class_="panels"),
        same=_table(ranked),
        level="attention" if any(fills_within(q.full_in_s, q.now, q.limit, SOON_S) for q in filling) else "",
    )


def _table(ranked: list[Queue]) -> Markup:
    return table(
        "Queues",
        (
            ("recipient", ""),
            ("at router", ""),
            ("waiting at the end", "n"),
            ("most", "n"),
            ("limit", "n"),
            ("full in", "n"),
            ("oldest expires in", "n"),
        ),
        (
            (
                key(q.recipient),
                key(q.router),
                q.now,
                max(max(q.open), q.depth_max),
                q.limit,
                lasting(q.full_in_s),
                lasting(q.oldest_due_s),
            )
            for q in ranked
        ),
    )


def forecast(queue: Queue) -> str:
    """Return what will happen first at the present rate."""
    full, due = queue.full_in_s, queue.oldest_due_s
    if not queue.now:
        return "Empty at the end."
    oldest = "" if due is None else f"oldest expires {f'in {lasting(due)}' if due > 0 else 'now'}"
    if full is None:
        return f"Not filling; {oldest}." if oldest else "Not filling."
    filling = "Full" if full <= 0 else f"Full in {lasting(full)}"
    return f"{filling}, {oldest}." if oldest else f"{filling}." if full <= 0 else f"{filling} at this rate."


def _see(ranked: list[Queue], filling: list[Queue]) -> str | Markup:
    waiting = sum(each.now for each in ranked)
    drawn = f" The {DRAWN_MAX} most urgent of {number(len(ranked))} are drawn." if len(ranked) > DRAWN_MAX else ""
    whom = counted(sum(1 for each in ranked if each.now), "recipient")
    first = f"{counted(waiting, 'message')} {'waits' if waiting == 1 else 'wait'} at the end of the logs, for {whom}."
    if not filling:
        return f"{first} No queue is filling.{drawn}"
    return join(f"{first} The most urgent is that of ", key(filling[0].recipient), f": {forecast(filling[0])}{drawn}")


def _do(filling: list[Queue]) -> str:
    if not filling:
        return (
            "Nothing. If a queue begins to rise without falling, its recipient is away or slower than what it is sent."
        )
    due, full = filling[0].oldest_due_s, filling[0].full_in_s
    if full is not None and full <= 0:
        return "It refuses what is new. Bring its recipient back, or make it faster; a larger limit only buys time."
    if due is not None and full is not None and due < full:
        return (
            "Its oldest messages expire before it is full, so messages end unread first. Bring the recipient back "
            "or make it faster before then; a larger queue would not help."
        )
    return "Bring the recipient back, or make it faster, before then: a full queue refuses what is new."


def _panel(queue: Queue, axis: TimeAxis) -> Markup:
    """Draw one small picture; a filling queue is continued, dashed, towards its limit."""
    ahead = _windows_ahead(queue, axis)
    units = axis.count + ahead
    top = max([*queue.open, queue.depth_max, queue.limit if queue.full_in_s is not None and queue.limit else 0])
    scale = Linear(top, _HEIGHT)
    points: list[float | None] = [scale.at(v) for v in queue.open]
    texts = {i: f"{axis.window(i)}: {number(v)} waiting" for i, v in enumerate(queue.open)}
    narrow = TimeAxis(axis.start, axis.step, round(units)) if units else axis
    drawing = plot(
        _HEIGHT,
        f"Messages waiting for {short(queue.recipient)}, over time",
        grid(scale, "messages waiting"),
        stretched(
            units,
            _HEIGHT,
            area([scale.at(v) for v in queue.open], _HEIGHT, "wait-area"),
            line(points, "wait-line"),
            *_ahead(queue, axis, scale, ahead),
        ),
        _limit(queue, scale),
        _due(queue, axis, units),
        time_ticks(narrow, _HEIGHT, 4),
        tag("svg", hits(axis, _HEIGHT, texts), width=pc(100 * axis.count / units), height=_HEIGHT, class_="marks"),
    )
    head = tag("p", "for ", key(queue.recipient), " at router ", key(queue.router), class_="panel-head")
    urgent = " alarm" if fills_within(queue.full_in_s, queue.now, queue.limit, ALARM_S) else ""
    return tag(
        "div",
        head,
        tag("p", tag("b", number(queue.now)), f" waiting. {forecast(queue)}", class_=f"forecast{urgent}"),
        tag("div", tag("div", tag("div", drawing, class_="row-plot"), class_="row"), class_="rows frame"),
        class_="panel",
    )


def _windows_ahead(queue: Queue, axis: TimeAxis) -> int:
    """Return how many future windows the picture shows: until the queue is full, but at most a third of the past."""
    if queue.full_in_s is None or not queue.limit:
        return 0
    return max(1, min(-(-axis.count // 3), int(queue.full_in_s / 60 / axis.step) + 1))


def _ahead(queue: Queue, axis: TimeAxis, scale: Linear, ahead: int) -> list[Markup]:
    if not ahead or not queue.limit or queue.full_in_s is None:
        return []
    until = max(queue.full_in_s / 60 / axis.step, 0.01)
    shown = min(until, float(ahead))
    level = queue.now + (queue.limit - queue.now) * shown / until
    x = axis.count - 0.5
    return [
        tag(
            "path",
            d=f"M{f(x * 10)} {f(scale.at(queue.now))}L{f((x + shown) * 10)} {f(scale.at(level))}",
            class_="line ahead",
        )
    ]


def _limit(queue: Queue, scale: Linear) -> Markup | None:
    if not queue.limit or queue.limit > scale.top or queue.full_in_s is None:
        return None
    y = scale.at(queue.limit)
    return join(
        tag("line", x1=0, x2="100%", y1=f(y), y2=f(y), class_="limit"),
        label("4", limit_label_y(y), f"limit {number(queue.limit)}", "note"),
    )


def limit_label_y(y: float) -> float:
    """Return the vertical place of the limit's label: above the line, or below it if "oldest expires" is there."""
    return y - 4 if y >= 31 else max(y + 14, 29)


def _due(queue: Queue, axis: TimeAxis, units: float) -> Markup | None:
    """Mark where, in the future part of the picture, the oldest message expires."""
    if queue.oldest_due_s is None or not queue.now:
        return None
    place = axis.count - 0.5 + queue.oldest_due_s / 60 / axis.step
    if place > units:
        return None
    x = pc(100 * place / units)
    return join(
        tag("line", x1=x, x2=x, y1=0, y2=_HEIGHT, class_="due"),
        label(x, 13, "oldest expires", "note", text_anchor="end", dx=-4),
    )
