"""What `router top` shows of one moment, as lines of text that fit a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf, isinf
from typing import Any, NamedTuple

from msgspec import Struct

from router.cli.distinct_names import distinct
from router.cli.output import address_text, clipped, for_this_home, short_text, size_text
from router.core.wire.text import clean, span_text
from router.overview.facts import BLOCKED, LOCAL, STRANGER, NodeFacts, PeerRow, WaitingRow
from router.overview.forecasts import Forecast
from router.overview.notices import GOOD, NEARLY_FULL, Notice, Situation, headline, notices, roughly, waits_because
from router.overview.rates import Rates

WIDTH, HEIGHT = 80, 24
"""Characters of a line and lines, where the terminal does not tell."""
NAME_MIN, NAME_MAX = 12, 40
KEYS = "q quit   s sort   arrows: why one waits"
SORTS = ("problem", "waits", "change", "name")
_RATES = (
    ("accepted", "ACCEPTED/S"), ("delivered", "DELIVERED/S"), ("passed_on", "PASSED ON/S"), ("refused", "REFUSED/S"),
    ("expired", "EXPIRED/S"), ("dropped", "DROPPED/S"),
)  # fmt: skip
_HEADS = ("STATE", "WAITS", "SIZE", "FULL", "OLDEST", "CHANGE/S", "RTT MS")
_WIDTHS = (9, 9, 9, 5, 10, 9, 7)


class ShownLine(NamedTuple):
    """A line of text. `style`: "" (plain), `bold`, `good`, `attention`, `bad`, `selected`."""

    text: str
    style: str = ""


class NeighbourRow(Struct, frozen=True):
    """A neighbour, an app, or one for whom messages wait, with all that is known of it."""

    key: str
    name: str
    peer: PeerRow | None
    queue: WaitingRow
    forecast: Forecast

    @property
    def is_bad(self) -> bool:
        """Whether an operator should look at it."""
        peer = self.peer
        told = peer is not None and bool(peer.problem) and peer.state != BLOCKED and peer.standing != STRANGER
        return told or self.queue.share > NEARLY_FULL or self.forecast.full_s is not None

    @property
    def state(self) -> str:
        return "away" if self.peer is None else self.peer.state


class Moment(Struct, frozen=True):
    """All that is shown at one moment. `wall_s`: Unix time."""

    situation: Situation
    rates: Rates
    wall_s: float

    @property
    def facts(self) -> NodeFacts:
        return self.situation.facts

    @property
    def rows(self) -> list[NeighbourRow]:
        """Return a row for each neighbour and app, and for each other recipient of what waits."""
        facts, found = self.facts, dict[str, NeighbourRow]()
        queues = {one.recipient: one for one in facts.queues}
        for key in dict.fromkeys([*(one.address for one in facts.peers), *queues]):
            peer, queue = facts.peer_of.get(key), queues.get(key, WaitingRow(key))
            if queue.messages or peer is None or peer.standing != LOCAL or peer.problem:
                name = facts.name_of(key)
                forecast = self.situation.forecasts.get(key, Forecast())
                found[key] = NeighbourRow(key, clean(name, 1000), peer, queue, forecast)
        return list(found.values())


_ORDERS: dict[str, Callable[[NeighbourRow], Any]] = {
    "problem": lambda row: (not row.is_bad, -row.queue.share, row.name or "~", row.key),
    "waits": lambda row: (-row.queue.messages, row.name or "~", row.key),
    "change": lambda row: (-abs(row.forecast.per_s), row.name or "~", row.key),
    "name": lambda row: (row.name or "~", row.key),
}


def ordered(rows: Sequence[NeighbourRow], sort: str) -> list[NeighbourRow]:
    """Return the rows in the order of one of `SORTS`: the worst, the fullest, the fastest, or by name."""
    return sorted(rows, key=_ORDERS[sort])


def screen(
    moment: Moment, width: int = WIDTH, height: int | None = HEIGHT, *, sort: str = SORTS[0], selected: str = ""
) -> list[ShownLine]:
    """Return the lines of one moment, at most `height` of them; None: all, and what is wrong on one line each, however
    long. `selected`: the key of the row about which there is more below the table."""
    top = [*_head(moment, width, is_whole=height is None), ShownLine(""), *_figures(moment, width), ShownLine("")]
    rows = ordered(moment.rows, sort)
    below = _more(moment, next((row for row in rows if row.key == selected), None), width)
    if height is None:
        room = len(rows)
    else:
        top = top[: max(2, height - 6)]
        below = [*below, ShownLine(f"{KEYS}   (sorted by {sort})")][-max(1, height - len(top) - 2) :]
        room = max(0, height - len(top) - len(below) - 1)
    table = _table(rows, width, room, selected)
    gap = [ShownLine("")] * max(0, (height or 0) - len(top) - len(table) - len(below))
    lines = [*top, *table, *gap, *below]
    return lines if height is None else [line._replace(text=line.text[:width]) for line in lines]


def _head(moment: Moment, width: int, *, is_whole: bool) -> list[ShownLine]:
    status = moment.facts.status
    clock = time.strftime("%H:%M:%S UTC", time.gmtime(moment.wall_s))
    name = clean(status.name, 1000) or short_text("addr", bytes.fromhex(status.address))
    who = f"{name}, {status.role or 'node'}, up {span_text(status.uptime_s)}"
    first = f"{clipped(who, max(1, width - len(clock) - 2)).ljust(width - len(clock))}{clock}"
    found = notices(moment.situation)
    lines = [ShownLine(first, "bold")]
    for one in found or [headline(moment.situation, found)]:
        texts = [_said(one)] if is_whole else wrapped(_said(one), width)
        lines += [ShownLine(text, one.level if one.level != GOOD else "good") for text in texts]
    more = len(lines) - 5
    return (
        lines
        if more <= 0 or is_whole
        else [*lines[:4], ShownLine(f"… and {more + 1} lines more; make the window higher")]
    )


def _said(one: Notice) -> str:
    return for_this_home(clean(f"{one.text} {one.remedy}".strip(), 2000))


def _figures(moment: Moment, width: int) -> list[ShownLine]:
    metrics, rates = moment.facts.metrics, moment.rates
    held = metrics.queue
    cells = [(head, f"{rates.per_s.get(name, 0.0):,.1f}") for name, head in _RATES]
    places = [max(len(head), len(value)) for head, value in cells]
    heads = "  ".join(head.rjust(place) for (head, _), place in zip(cells, places, strict=True))
    values = "  ".join(value.rjust(place) for (_, value), place in zip(cells, places, strict=True))
    waits = f"waits     {held.messages:,} messages, {size_text(held.bytes)}, {100 * held.share:.0f} % of what may"
    lasts = f"delivery p50 {_bound(rates.p50_s.get('delivery'))} p99 {_bound(rates.p99_s.get('delivery'))}"
    own = ", ".join(f"{name.replace('_', ' ')} p99 {_bound(rates.p99_s.get(name))}" for name in ("commit", "loop_lag"))
    room = (
        f"store {size_text(metrics.store.used_bytes)} of {size_text(metrics.store.bytes_max)}, disk"
        f" {size_text(metrics.disk.free_bytes)} free, memory {size_text(metrics.resident_bytes)}"
    )
    services = ", ".join(
        one.name if one.state == "running" else f"{one.name} (away)" for one in moment.facts.status.services
    )
    ended = moment.situation.ended.most_common(4)
    lines = [heads, values, waits, f"times ≤   {lasts}, {own}", f"room      {room}"]
    lines += [f"services  {services}"] if services else []
    if ended:
        said = (f"{count:,} {event} {reason}".strip() for (event, reason), count in ended)
        lines.append(f"lately    {', '.join(said)}")
    return [ShownLine(clipped(clean(line, 2000), width), "bold" if line is heads else "") for line in lines]


def _bound(seconds: float | None) -> str:
    """Return a bound of a histogram: a value is at most so large."""
    if seconds is None:
        return "-"
    if isinf(seconds):
        return "longer"
    return f"{seconds:g} s" if seconds >= 1 else f"{1000 * seconds:g} ms"


def _table(rows: Sequence[NeighbourRow], width: int, room: int, selected: str) -> list[ShownLine]:
    if not rows:
        return [ShownLine("no neighbour is known, and nothing waits")]
    place = min(NAME_MAX, max(NAME_MIN, width - sum(_WIDTHS) - len(_WIDTHS)))
    at = next((number for number, row in enumerate(rows) if row.key == selected), 0)
    first = max(0, min(at - room // 2, len(rows) - room))
    names = distinct([(row.name, row.key) for row in rows], place)
    heads = ("NAME".ljust(place), *(head.rjust(size) for head, size in zip(_HEADS, _WIDTHS, strict=True)))
    lines = [ShownLine(" ".join(heads), "bold")]
    for row, name in list(zip(rows, names, strict=True))[first : first + room]:
        text = " ".join((name.ljust(place), *(one.rjust(size) for one, size in zip(_cells(row), _WIDTHS, strict=True))))
        lines.append(ShownLine(text, "selected" if row.key == selected else "attention" if row.is_bad else ""))
    return lines


def _cells(row: NeighbourRow) -> tuple[str, ...]:
    queue, peer = row.queue, row.peer
    return (
        row.state,
        f"{queue.messages:,}",
        size_text(queue.bytes) if queue.messages else "-",
        f"{100 * queue.share:.0f} %" if queue.messages else "-",
        span_text(queue.oldest_s) if queue.messages else "-",
        f"{row.forecast.per_s:+,.1f}" if row.forecast.per_s else "-",
        f"{peer.rtt_ms:.1f}" if peer is not None and peer.rtt_ms is not None else "-",
    )


def _more(moment: Moment, row: NeighbourRow | None, width: int) -> list[ShownLine]:
    """Return what there is to say of the selected row."""
    if row is None:
        return []
    said = [row.name or "it has no name", address_text(row.key)]
    if row.peer is not None and row.peer.where:
        said.append(row.peer.where)
    lines = [" · ".join(said)]
    if row.queue.messages:
        lines.append(waits_because(moment.facts, row.queue, row.forecast))
    elif row.peer is not None:
        lines.append(row.peer.problem or f"It is {row.state}, and nothing waits for it.")
    for text, seconds in (("full", row.forecast.full_s), ("empty", row.forecast.empty_s)):
        if seconds is not None and seconds < inf:
            lines.append(f"If it goes on so, its queue is {text} in about {roughly(seconds)}.")
    return [ShownLine(one) for line in lines for one in wrapped(clean(line, 2000), width)]


def wrapped(text: str, width: int) -> list[str]:
    """Return the text in lines of at most `width` characters, cut between words where it can be."""
    lines, line = list[str](), ""
    for word in text.split():
        while len(word) > width:
            head, word = word[:width], word[width:]
            lines += [line] if line else []
            lines, line = [*lines, head], ""
        if line and len(line) + 1 + len(word) > width:
            lines, line = [*lines, line], word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line] if line or not lines else lines


def in_json(moment: Moment) -> dict[str, Any]:
    """Return the same for programs."""
    facts, rates = moment.facts, moment.rates
    found = notices(moment.situation)
    return {
        "at_s": moment.wall_s,
        "address": facts.status.address,
        "uptime_s": facts.status.uptime_s,
        "headline": headline(moment.situation, found)._asdict(),
        "notices": [one._asdict() for one in found],
        "per_s": rates.per_s,
        "p50_s": {name: _finite(value) for name, value in rates.p50_s.items()},
        "p99_s": {name: _finite(value) for name, value in rates.p99_s.items()},
        "queue": {"messages": facts.metrics.queue.messages, "bytes": facts.metrics.queue.bytes},
        "resident_bytes": facts.metrics.resident_bytes,
        "rows": [_row_json(row) for row in ordered(moment.rows, SORTS[0])],
    }


def _row_json(row: NeighbourRow) -> dict[str, Any]:
    return {
        "address": row.key,
        "name": row.name,
        "state": row.state,
        "messages": row.queue.messages,
        "bytes": row.queue.bytes,
        "oldest_s": row.queue.oldest_s,
        "per_s": row.forecast.per_s,
        "full_s": row.forecast.full_s,
        "empty_s": row.forecast.empty_s,
        "problem": row.peer.problem if row.peer is not None else None,
    }


def _finite(value: float | None) -> float | None:
    """Return a bound as JSON has it; a value above all bounds has none."""
    return None if value is None or isinf(value) else value
