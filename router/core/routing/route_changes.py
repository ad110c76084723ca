"""Routes that are learned, and those that end: the table, the store and the log agree."""

from __future__ import annotations

from router.core.log import events as ev
from router.core.neighbours.directory import UNKNOWN, Standing
from router.core.wire.lifetime import expiry_s
from router.core.wire.message import UNICAST
from router.core.wire.now import Now

from .effects import Pending
from .intake import ArrivedMessage
from .kernel import Kernel
from .links import Link
from .routes import Route, Routes

INTRODUCED_S = 50 * 3600
"""How long the way to an app outlasts its introduction. That has at least five days left when the app goes away
(`core/control/introductions.py`), and who is away for seven days, as long as messages wait, is to be reached to the
end: this makes it seven days and two hours."""


def end_route(routes: Routes, pending: Pending, route: Route, now: Now) -> None:
    """Remove a route that has expired, lost its neighbour's right to relay, or gave way to another, and log it."""
    routes.forget(route.destination)
    pending.changes.routes[route.destination] = None
    fields = (("destination", route.destination), ("neighbour", route.neighbour))
    pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "route_del", fields))


def move_routes(kernel: Kernel, neighbour: bytes, to: bytes, now: Now) -> None:
    """Let all routes through a neighbour lead through the key that has its place, and log it."""
    for route in kernel.routes.move(neighbour, to):
        _log_added(kernel, route, now)


def learn_route(kernel: Kernel, link: Link, row: ArrivedMessage, now: Now) -> None:
    """Learn a route (step 2 of the unicast algorithm), from fresh, verified messages only (R-C2)."""
    kind, source, *_ = row.head
    if kind != UNICAST or link.standing is Standing.LOCAL or link.standing in UNKNOWN or source == link.key:
        return
    if kernel.links.to(source) is not None:
        return
    is_introduction = row.head.destination == link.key
    route = Route(source, link.key, expiry_s(row.head.expiry_min) + (INTRODUCED_S if is_introduction else 0))
    gone = kernel.routes.learn(route, now.judged_s)
    if gone is None:
        return
    for one in gone:
        end_route(kernel.routes, kernel.pending, one, now)
    _log_added(kernel, route, now)


def _log_added(kernel: Kernel, route: Route, now: Now) -> None:
    kernel.pending.changes.routes[route.destination] = route
    fields = (("destination", route.destination), ("neighbour", route.neighbour), ("until_s", route.until_s))
    kernel.pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "route_add", fields))
