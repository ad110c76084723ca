"""The end of a route: it is forgotten, and logged."""

from __future__ import annotations

from router.core.log import events as ev
from router.core.wire.now import Now

from .effects import Pending
from .routes import Route, Routes


def end_route(routes: Routes, pending: Pending, route: Route, now: Now) -> None:
    """Remove a route that has expired, lost its neighbour's right to relay, or gave way to another, and log it."""
    routes.forget(route.destination)
    pending.changes.routes[route.destination] = None
    fields = (("destination", route.destination), ("neighbour", route.neighbour))
    pending.changes.events.append(ev.State(now.wall_ns, now.mono_ns, "route_del", fields))
