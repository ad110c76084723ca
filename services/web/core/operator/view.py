"""What the page shows at one moment, and the parts of it that are pictures and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from router.overview.facts import BLOCKED, CONNECTED, LOCAL, STRANGER, NodeFacts, PeerRow, WaitingRow
from router.overview.forecasts import Forecast
from router.overview.hour import ENDED, WINDOW_S, Window
from router.overview.notices import ATTENTION, BAD, NEARLY_FULL, Situation, roughly, waits_because
from spark_analytics.report.page.figure import folded, table
from spark_analytics.report.page.markup import Markup, join, tag
from spark_analytics.report.page.wording import clock, counted, number
from spark_analytics.report.reasons import SENTENCES

from .drawing import AWAY, PROBLEM, SHUT, WELL, Branch, bar, curve, plan

PLAN_MAX = 24
"""Neighbours that are drawn one by one; of more, those that are well are drawn as one."""
BARS_MAX = 12
"""Queues that are drawn as bars, the fullest first; the table has more."""
_HOUR_COLUMNS = (
    ("from, UTC", ""),
    ("accepted", "n"),
    ("handed over", "n"),
    ("waiting at most", "n"),
    ("ended otherwise", "n"),
)
_QUEUE_COLUMNS = (
    ("recipient", ""), ("messages", "n"), ("limit", "n"), ("bytes", "n"), ("oldest", "n"), ("if it goes on so", ""),
    ("why", ""),
)  # fmt: skip
_PEER_COLUMNS = (
    ("name", ""), ("is", ""), ("state", ""), ("away for", "n"), ("round trip", "n"), ("waiting", "n"),
    ("problem", ""),
)  # fmt: skip
HALF_FULL = 0.5
SETTLED_S = 5.0
"""Seconds of a window that must be seen before its rate says anything."""


class View(Struct, frozen=True):
    """One moment. `hour`: the windows up to now, None where nothing was seen; `ended_hour`: messages that ended
    undelivered in the hour, by event and reason; `since_start`: the same since the node's start."""

    seen: Situation
    hour: Sequence[Window | None]
    ended_hour: Counter[tuple[str, str]]
    wall_s: float

    @property
    def facts(self) -> NodeFacts:
        return self.seen.facts

    def forecast(self, queue: WaitingRow) -> Forecast:
        return self.seen.forecasts.get(queue.recipient, Forecast())


# -- traffic -----------------------------------------------------------------------------------------------------------


def traffic(view: View) -> Markup:
    """Return the hour as three curves."""
    held = view.facts.metrics.queue
    accepted = [None if one is None else _rate(one, one.accepted) for one in view.hour]
    delivered = [None if one is None else _rate(one, one.delivered) for one in view.hour]
    waiting = [None if one is None else float(one.waiting) for one in view.hour]
    tiles = (
        _tile(view, "Accepted", "a second", accepted, "p50"),
        _tile(view, "Handed over", "a second", delivered, "p95"),
        _tile(view, "Waiting", "message" if held.messages == 1 else "messages", waiting, "p99", held.messages),
    )
    rows = [
        (f"{_clock(view, at)}", one.accepted, one.delivered, one.waiting, one.ended.total())
        for at, one in reversed(list(enumerate(view.hour)))
        if one is not None
    ]
    return tag(
        "section",
        tag("h2", "The last hour", id="traffic-title"),
        tag("div", *tiles, class_="tiles"),
        folded(
            "The same as a table", table("The last hour, by half minutes", _HOUR_COLUMNS, rows, most=len(view.hour))
        ),
        aria_labelledby="traffic-title",
    )


def _rate(window: Window, count: int) -> float | None:
    return count / window.seen_s if window.seen_s >= SETTLED_S else None


def _tile(
    view: View, label: str, unit: str, values: Sequence[float | None], class_: str, now: float | None = None
) -> Markup:
    known = [value for value in values if value is not None]
    last, top = now if now is not None else known[-1] if known else 0, max(known, default=0)
    said = f"{label}: {_amount(last)} {unit} now, at most {_amount(top)} in the last hour"
    return tag(
        "div",
        tag("p", tag("b", _amount(last)), " ", unit, class_="amount"),
        tag("p", label, tag("span", f"at most {_amount(top)}"), class_="label"),
        curve(values, said, class_),
        tag("p", tag("span", _clock(view, 0)), tag("span", "now"), class_="ends"),
        class_="tile",
    )


def _amount(value: float) -> str:
    if value >= 10 or value == round(value):
        return number(round(value))
    return f"{value:.1f}" if value >= 0.05 else "under 0.1"


def _clock(view: View, at: int) -> str:
    """Return the time at which a window of the hour began."""
    return clock(int(view.wall_s - (len(view.hour) - 1 - at) * WINDOW_S) // 60)


# -- queues ------------------------------------------------------------------------------------------------------------


def queues(view: View) -> Markup:
    """Return what waits: a bar for each recipient, with what comes of it, and why."""
    found = sorted(view.facts.queues, key=lambda one: (-one.share, -one.messages))
    held = view.facts.metrics.queue
    title = tag("h2", "What waits", id="queues-title")
    if not found:
        return tag(
            "section", title, tag("p", "Nothing waits for anybody.", class_="nothing"), aria_labelledby="queues-title"
        )
    lead = (
        f"{counted(held.messages, 'message')} for {counted(len(found), 'recipient')}, {_bytes(held.bytes)}: "
        f"{_percent(held.share)} of what this node may hold."
    )
    rows = [
        (
            one.title,
            one.messages,
            one.limit_messages,
            _bytes(one.bytes),
            roughly(one.oldest_s) if one.oldest_s is not None else "–",
            _foretold(view.forecast(one)),
            waits_because(view.facts, one, view.forecast(one)),
        )
        for one in found
    ]
    return tag(
        "section",
        title,
        tag("p", lead, class_="lead"),
        tag("ul", *(_bar(view, one) for one in found[:BARS_MAX]), class_="bars"),
        tag("p", f"and {counted(len(found) - BARS_MAX, 'recipient')} more", class_="nothing")
        if len(found) > BARS_MAX
        else None,
        folded(
            "The same as a table", table("What waits, by recipient", _QUEUE_COLUMNS, rows, whole="router queue --json")
        ),
        aria_labelledby="queues-title",
    )


def _bar(view: View, one: WaitingRow) -> Markup:
    level = BAD if one.share > NEARLY_FULL else ATTENTION if one.share > HALF_FULL else "calm"
    forecast = view.forecast(one)
    oldest = f", oldest {roughly(one.oldest_s)}" if one.oldest_s else ""
    said = f"{counted(one.messages, 'message')}, {_percent(one.share)} full{oldest}"
    return tag(
        "li",
        tag("span", tag("b", one.title), class_="who"),
        bar(one.share, level, f"{one.title}: {said}"),
        tag("span", said, class_="much"),
        tag("span", _foretold(forecast), class_=f"foretold {level if forecast.full_s is not None else ''}".strip()),
        tag("span", waits_because(view.facts, one, view.forecast(one)), class_="because"),
    )


def _foretold(forecast: Forecast) -> str:
    if forecast.full_s is not None:
        return f"full in about {roughly(forecast.full_s)}"
    if forecast.empty_s is not None:
        return f"empty in about {roughly(max(forecast.empty_s, 1))}"
    return "grows" if forecast.per_s > 0 else "shrinks" if forecast.per_s < 0 else "stays as it is"


def _percent(share: float) -> str:
    return "under 1\u00a0%" if 0 < share < 0.01 else f"{100 * share:.0f}\u00a0%"


def _bytes(size: int) -> str:
    for unit, least in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return counted(size, "byte")


# -- neighbours --------------------------------------------------------------------------------------------------------


def neighbours(view: View) -> Markup:
    """Return the plan of the neighbours, and the same as a table."""
    facts = view.facts
    services = {one.address for one in facts.status.services}
    apps = [one for one in facts.peers if one.standing == LOCAL and one.address not in services]
    routers = [one for one in facts.peers if one.standing not in (LOCAL, STRANGER)]
    strangers = [one for one in facts.peers if one.standing == STRANGER]
    title = tag("h2", "Neighbours", id="neighbours-title")
    if not (routers or apps or strangers):
        return _section(
            "neighbours", "Neighbours", tag("p", "No neighbour is known, and no app is here.", class_="nothing")
        )
    waits = {one.recipient: one.messages for one in facts.queues}
    branches = [*_branches(routers, waits), *_as_one("app", apps, waits), *_as_one("stranger", strangers, waits)]
    rows = [
        (
            one.title,
            _standing(one),
            one.state,
            roughly(one.last_contact_s) if one.last_contact_s else "–",
            f"{one.rtt_ms:.0f} ms" if one.rtt_ms is not None else "–",
            waits.get(one.address, 0),
            one.problem or "–",
        )
        for one in sorted([*routers, *apps, *strangers], key=lambda one: (one.is_well, one.title))
    ]
    well = sum(one.is_well for one in routers)
    said = f"{facts.status.title} and its {counted(len(routers), 'neighbour')}, {well} of them well"
    return tag(
        "section",
        title,
        plan(facts.status.title, branches, said),
        _LEGEND,
        folded("The same as a table", table("Neighbours and apps", _PEER_COLUMNS, rows, whole="router peers --json")),
        aria_labelledby="neighbours-title",
    )


def _branches(routers: Sequence[PeerRow], waits: dict[str, int]) -> list[Branch]:
    """Return the routers one by one, or of many those that are not well, and the others as one."""
    ordered = sorted(routers, key=lambda one: (one.is_well, not one.problem, one.title))
    if len(ordered) <= PLAN_MAX:
        return [_branch(one, waits) for one in ordered]
    shown = [one for one in ordered if not one.is_well][: PLAN_MAX - 1]
    rest = [one for one in ordered if one not in shown]
    wrong = sum(not one.is_well for one in rest)
    how = f"{wrong} of them not well" if wrong else "all well"
    return [*(_branch(one, waits) for one in shown), Branch(f"{len(rest)} more", PROBLEM if wrong else WELL, how)]


def _branch(one: PeerRow, waits: dict[str, int]) -> Branch:
    state = SHUT if one.state == BLOCKED else PROBLEM if one.problem else WELL if one.state == CONNECTED else AWAY
    waiting = waits.get(one.address, 0)
    return Branch(one.title, state, f"{waiting:,} wait" if waiting else "")


def _as_one(noun: str, members: Sequence[PeerRow], waits: dict[str, int]) -> list[Branch]:
    """Return these, if there are any, as one branch: apps of this node, or strangers, whose problems are theirs."""
    if not members:
        return []
    waiting = sum(waits.get(one.address, 0) for one in members)
    return [Branch(f"{counted(len(members), noun)} here", WELL, f"{waiting:,} wait" if waiting else "")]


def _standing(one: PeerRow) -> str:
    if one.uplink:
        return "uplink"
    return "app" if one.standing == LOCAL else one.standing


_LEGEND = tag(
    "p",
    *(
        tag("span", tag("svg", mark, viewbox="0 0 20 20", width=16, height=16, aria_hidden="true"), words)
        for mark, words in (
            (tag("circle", cx=10, cy=10, r=7, class_=f"dot {WELL}"), "well"),
            (tag("circle", cx=10, cy=10, r=7, class_=f"dot {AWAY}"), "away"),
            (tag("path", d="M10 2L18 17H2z", class_=f"dot {PROBLEM}"), "look here"),
            (tag("rect", x=3, y=3, width=14, height=14, class_=f"dot {SHUT}"), "blocked"),
        )
    ),
    class_="key-of-plan",
)


# -- the rest ----------------------------------------------------------------------------------------------------------


def groups(view: View) -> Markup:
    """Return who has joined which group."""
    facts = view.facts
    here, there = Counter[str](), Counter[str]()
    for one in facts.groups:
        (here if one.local else there)[one.group] += 1
    names = {one.group: one.name for one in facts.groups}
    keys = sorted(names, key=lambda key: (not names[key], names[key], key))
    rows = [(names[key] or "–", f"{key[:16]}…", here[key], there[key]) for key in keys]
    columns = (("name", ""), ("group", ""), ("apps here", "n"), ("routers", "n"))
    shown = table("Groups and their members here", columns, rows, whole="router groups --json")
    return _section("groups", "Groups", shown if rows else tag("p", "No group is joined here.", class_="nothing"))


def refusals(view: View) -> Markup:
    """Return the messages that ended undelivered, by reason."""
    counts = view.facts.metrics.messages
    start = Counter({(event, reason): n for event, reason, n in counts if event in ENDED and n})
    pairs = sorted(start, key=lambda key: (-view.ended_hour[key], -start[key], key))
    rows = [
        (reason or event, event, view.ended_hour[event, reason], start[event, reason], SENTENCES.get(reason, "–"))
        for event, reason in pairs
    ]
    columns = (("reason", ""), ("end", ""), ("last hour", "n"), ("since the start", "n"), ("what it means", ""))
    shown = table("Messages that were not delivered, by reason", columns, rows, whole="router status --json")
    none = tag("p", "No message was refused, dropped, or has expired since the start.", class_="nothing")
    return _section("refusals", "Refusals by reason", shown if rows else none)


def services(view: View) -> Markup:
    """Return the services, and what is wrong with each."""
    rows = [(one.name, one.state, one.run, one.starts, one.problem or "–") for one in view.facts.status.services]
    columns = (("service", ""), ("state", ""), ("runs", ""), ("starts", "n"), ("last problem", ""))
    return _section("services", "Services", table("Services of this node", columns, rows, whole="router status --json"))


def _section(name: str, title: str, *inside: object) -> Markup:
    return tag("section", tag("h2", title, id=f"{name}-title"), join(*inside), aria_labelledby=f"{name}-title")
