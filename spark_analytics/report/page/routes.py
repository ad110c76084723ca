"""Changes of routes, links and memberships, and which of them changed most."""

from __future__ import annotations

from spark_analytics.report.reading import Row, binned, rows, whole
from spark_analytics.report.sentences import FLAPS_MIN

from .charts import Lane, TimeAxis, compared, lanes
from .figure import empty, figure, section, table
from .markup import Markup, join, tag
from .wording import counted, key, number

FLAPS_SHOWN = 10
_EVENTS = (
    ("link_up", "links up", "a neighbour connected"),
    ("link_down", "links down", "a neighbour's connection ended"),
    ("route_add", "routes added", "a way to a destination was learned"),
    ("route_del", "routes removed", "a way to a destination was forgotten or withdrawn"),
    ("join", "joins", "somebody joined a group"),
    ("leave", "leaves", "somebody left a group"),
    ("advert", "advertisements", "a service made itself known"),
)
_ENDS = ("link_down", "route_del", "leave")


def routes(summary: Row, axis: TimeAxis) -> Markup:
    lead = (
        "Which ways were open? Routers learn who is reachable through whom. A link or route that comes and goes "
        "again and again (it “flaps”) delays messages even where none is lost."
    )
    return section(
        "routes", "Routes and links", lead, _over_time(rows(summary, "routes"), axis), _flaps(rows(summary, "flaps"))
    )


def _over_time(found: list[Row], axis: TimeAxis) -> Markup:
    title = "Changes of links, routes and memberships over time"
    shown = []
    for event, words, _ in _EVENTS:
        mine = (row for row in found if row.get("event") == event)
        values = binned(mine, axis.place, axis.count, ("count",))["count"]
        if any(values):
            shown.append(Lane(words, values, "s-change-off" if event in _ENDS else "s-change", words))
    if not shown:
        return empty("route-changes", title, "No link, route or membership changed in the time that was audited.")
    most = max(shown, key=lambda lane: max(lane.values))
    place = most.values.index(max(most.values))
    return figure(
        "route-changes",
        title,
        see=f"The liveliest window was {axis.window(place)}: {number(most.values[place])} {most.unit}. What begins "
        "is drawn solid, what ends is striped.",
        do="If links go down and up together, at the time of a slow or lossy window, the network between two "
        "routers is the cause; the table below names them.",
        chart=lanes(axis, shown, "Changes"),
        same=join(
            table("What the words mean", (("event", ""), ("in the picture", ""), ("meaning", "")), _EVENTS),
            table(
                "Changes by window",
                (("window, UTC", ""), *((lane.unit, "n") for lane in shown)),
                (
                    [axis.window(i), *(lane.values[i] for lane in shown)]
                    for i in range(axis.count)
                    if any(lane.values[i] for lane in shown)
                ),
                most=240,
            ),
        ),
    )


ONCE = 2
"""Changes of a key that came and went once, such as the throwaway key of an operator's command."""


def _flaps(found: list[Row]) -> Markup:
    title = "What changed most often"
    ranked = sorted((row for row in found if whole(row, "changes") > ONCE), key=lambda row: -whole(row, "changes"))
    if not ranked:
        return empty("flaps", title, "No link or route came and went more than once.")
    most = whole(ranked[0], "changes")
    flapping = [row for row in ranked if whole(row, "changes") >= FLAPS_MIN]
    often = "none" if not flapping else counted(len(flapping), "subject")
    drawn = [
        (
            join(key(row.get("subject")), tag("span", " at ", key(row.get("router")), class_="fine")),
            whole(row, "changes"),
            "s-change",
            None,
        )
        for row in ranked[:FLAPS_SHOWN]
    ]
    return figure(
        "flaps",
        title,
        see=join(
            "The most restless is ",
            key(ranked[0].get("subject")),
            f", with {counted(most, 'change')}; {often} changed {FLAPS_MIN} times or more.",
        ),
        do="Look at the log of the router named beside it, and at that neighbour's: one of the two ends the "
        "connection, and says why.",
        chart=compared(drawn, "Changes, by what changed"),
        same=table(
            "Changes by subject",
            (("subject", ""), ("router", ""), ("changes", "n")),
            ((key(row.get("subject")), key(row.get("router")), whole(row, "changes")) for row in ranked),
        ),
        level="attention" if flapping else "",
    )
