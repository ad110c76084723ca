"""Messages turned away at the door, by hour, and neighbour or network."""

from __future__ import annotations

from spark_analytics.judgement.schema import NOTED
from spark_analytics.report.reading import Row, rows, summed, whole, whole_or_none
from spark_analytics.report.reasons import SENTENCES

from .charts import Lane, TimeAxis, compared, lanes
from .figure import empty, figure, section, table
from .markup import Markup, join, tag
from .wording import between, key, moment, number, share

NEIGHBOURS_SHOWN = 8
HOURS_MIN = 4
_TITLE = "Turned away, by hour, for each neighbour or network that brought it"


def abuse(summary: Row) -> Markup:
    lead = (
        "Who sent what must not be? Routers turn away messages with a wrong signature, replays of what they have, "
        "floods and impossible expiry times before anybody is owed them. Beside these stands what their services and "
        "they themselves did not take in, such as datagrams and addresses of strangers. None of this is in the "
        "balance; it is shown because it may be an attack."
    )
    return section("abuse", "Turned away at the door", lead, _figure(rows(summary, "abuse"), rows(summary, "reasons")))


def _figure(found: list[Row], reasons_told: list[Row]) -> Markup:
    """Draw the messages turned away. `found`: the largest counts of the summary; `reasons_told`: reasons of all of
    them."""
    timed = [row for row in found if whole_or_none(row, "hour") is not None and whole(row, "count")]
    if not timed:
        return empty("abuse-hours", _TITLE, "Nothing was turned away: every message that came was accepted.")
    axis = TimeAxis.over((60 * whole(row, "hour") for row in timed), 60)
    neighbours = summed([{**row, "peer": _who(row)} for row in timed], "count", "peer")
    messages = [row for row in reasons_told if row.get("at_door")] or [row for row in timed if not _is_noted(row)]
    reasons = summed([*messages, *filter(_is_noted, timed)], "count", "reason")
    return figure(
        "abuse-hours",
        _TITLE,
        see=_see(neighbours, reasons),
        do=join(
            "Replays after a reconnect are usual and harmless. Many wrong signatures from one neighbour are not: ",
            tag("code", "router peer block KEY", class_="command"),
            " shuts it out, or tell its operator.",
        ),
        chart=join(_drawing(axis, timed, neighbours[:NEIGHBOURS_SHOWN]), _reasons(reasons)),
        same=_table(timed),
    )


def _see(neighbours: list[tuple[object, int]], reasons: list[tuple[object, int]]) -> Markup:
    """Say how many were turned away, who brought most of those drawn, and the most frequent reason; both lists begin
    with the greatest count."""
    total, turned = (sum(n for _, n in each) for each in (neighbours, reasons))
    told = f" The largest counts are drawn, {number(total)} of these." if turned > total else ""
    more = (
        f" The {NEIGHBOURS_SHOWN} busiest of {number(len(neighbours))} are drawn."
        if len(neighbours) > NEIGHBOURS_SHOWN
        else ""
    )
    first, count = neighbours[0]
    return join(
        f"{number(turned)} were turned away.{told} ",
        _named(first, "Unnamed ones"),
        f" brought {share(count, total)} of them; the most frequent reason is “{short_reason(reasons[0][0])}” "
        f"({number(reasons[0][1])}).{more}",
    )


def _table(timed: list[Row]) -> Markup:
    return table(
        "Turned away",
        (
            ("hour, UTC", ""),
            ("router", ""),
            ("neighbour", ""),
            ("network", ""),
            ("signer", ""),
            ("reason", ""),
            ("event", ""),
            ("times", "n"),
        ),
        (
            (
                moment(60 * whole(row, "hour")),
                key(row.get("router")),
                key(row.get("peer")),
                row.get("prefix") or "–",
                key(row.get("signer")),
                row.get("reason") or "–",
                row.get("event") or "–",
                whole(row, "count"),
            )
            for row in timed
        ),
    )


def _drawing(axis: TimeAxis, found: list[Row], shown: list[tuple[object, int]]) -> Markup:
    """Draw counts by hour, or by neighbour if there are only a few hours."""
    if axis.count >= HOURS_MIN:
        return lanes(axis, [_lane(peer, found, axis) for peer, _ in shown], "Turned away")
    drawn = [(_named(who, "unnamed"), n, "s-abuse", None) for who, n in shown]
    return compared(drawn, f"Turned away, {between(axis.start, axis.end)} UTC, by neighbour")


def _is_noted(row: Row) -> bool:
    """Whether a row counts events of services and routers, and not messages."""
    return str(row.get("event")).endswith(NOTED)


def _who(row: Row) -> object:
    """Return the neighbour that sent it, or the network."""
    return row.get("peer") or row.get("prefix")


def _named(who: object, nobody: str) -> Markup | str:
    return str(who) if isinstance(who, str) and "/" in who else key(who, nobody)


def short_reason(reason: object) -> str:
    return str(reason)[:60] if reason else "none"


def _lane(who: object, found: list[Row], axis: TimeAxis) -> Lane:
    values = [0] * axis.count
    for row in found:
        if _who(row) == who:
            values[axis.place(60 * whole(row, "hour"))] += whole(row, "count")
    return Lane(_named(who, "unnamed"), values, "s-abuse", "turned away")


def _reasons(found: list[tuple[object, int]]) -> Markup:
    return table(
        "Reasons, over all neighbours",
        (("reason", ""), ("times", "n"), ("what it means", "")),
        ((reason or "none", n, SENTENCES.get(str(reason), "–")) for reason, n in found),
        most=12,
    )
