"""The rules of the web side: two doors for HTTP, one for everybody and one for the operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from math import inf
from typing import Any

from router.service import contract as c
from router.service.kept_rows import judge
from services.web.core.http.callers import Callers
from services.web.core.http.door import HttpDoor
from services.web.core.http.link import LINK, link_reply
from services.web.core.http.pages import Pages, folder_of
from services.web.core.http.request import Answer, Reply, Request, refusal, shown
from services.web.core.http.sites import Sites
from services.web.core.kept import FORMS, VERSION
from services.web.core.monitoring import Monitoring
from services.web.core.openapi import Description
from services.web.core.operations import FOR_OPERATORS, FOR_SCRIPTS
from services.web.core.operator.pages import OperatorPages
from services.web.core.scripts.scripts import Scripts, is_of_script
from services.web.core.service_requests import ServiceRequests
from services.web.metrics_page import MetricsPage
from services.web.settings import Settings
from services.web.static_files import NoApps, read_apps, read_operator_files, read_static

LISTEN, OPERATOR = "listen", "operator"
ALLOWED = (
    ("Access-Control-Allow-Methods", "GET, HEAD, POST"),
    ("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"),
    ("Access-Control-Max-Age", "600"),
)
"""What pages from elsewhere that may use this node may send it."""
LOOK_S = 1.0
"""Seconds between two looks at connections that take too long, while there are any."""


class Web:
    """Answers requests, and hands links over to the router."""

    def __init__(self, setup: c.Setup) -> None:
        settings: Settings = setup.settings
        section = f"services.{setup.name}"
        self._settings = settings
        self._first = judge(setup.kept, setup.name, VERSION, FORMS)
        self._sites = Sites(settings.url, settings.origins, section)
        self._pages, self._without = _pages_of(settings)
        self._scripts = Scripts(setup)
        self._monitoring = Monitoring(MetricsPage(), setup.name, self._status)
        self._services = ServiceRequests(setup.find_over_http())
        self._operator = OperatorPages(setup, read_operator_files(), is_tls=settings.is_operator_tls)
        asked = (*(("", one) for one in FOR_SCRIPTS), *self._services.operations())
        self._description = Description(asked, self._sites.prefix)
        self._for_operators = Description([("", one) for one in FOR_OPERATORS], "")
        callers, limits = Callers(settings.proxies), settings.limits
        self._doors = {
            LISTEN: HttpDoor(LISTEN, limits, self._sites, callers, self._public, self._admit),
            OPERATOR: HttpDoor(
                OPERATOR, limits, Sites(settings.operator_url, (), ""), callers, self._for_operator, _no_body
            ),
        }
        self._tick_s = inf  # when the next Tick should come

    def __repr__(self) -> str:
        return f"<web side: {self._doors[LISTEN]!r}, {self._doors[OPERATOR]!r}>"

    def doors(self) -> Mapping[str, str]:
        return {LISTEN: self._settings.listen, OPERATOR: self._settings.operator}

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        deeds = list(self._hear(heard, now))
        pause_s = LOOK_S if self._has_work else self._operator.pause_s if self._settings.operator else inf
        is_lost = now.mono_s > self._tick_s + LOOK_S  # a wake, with what it came with
        if now.mono_s + pause_s < self._tick_s or is_lost:
            self._tick_s = now.mono_s + pause_s
            deeds.append(c.Wake(now.wall_s + pause_s))
        return deeds

    @property
    def _has_work(self) -> bool:
        """Whether something is under way that the clock may end."""
        parts: list[Sized] = [
            *self._doors.values(),
            self._scripts,
            self._monitoring,
            self._services,
            self._operator,
        ]
        return any(map(len, parts))

    def _hear(self, heard: c.Heard, now: c.Now) -> Iterator[c.Deed]:
        match heard:
            case c.Came(door, peer, data):
                yield from self._doors[door].came(peer, data, now)
                return
            case c.Opened(door, peer, address):
                yield from self._doors[door].opened(peer, address, now)
                return
            case c.Started():
                yield from self._first
                if self._without:
                    yield c.Warn(self._without)
            case c.Tick():
                self._tick_s = inf
                for one in self._doors.values():
                    yield from one.overdue(now)
                yield from self._monitoring.tick(self._doors, now)
            case c.Told():
                yield from self._monitoring.told(heard, self._doors, now)
            case c.Asked(number, "status"):
                yield c.Answer(number, self._status())
            case c.Asked(word="token" | "tokens" | "end"):
                yield from self._scripts.answer(heard, self._doors, now)
            case c.Asked(word="open" | "logins" | "end-login"):
                yield from self._operator.answer(heard, self._doors[OPERATOR], now)
            case c.Asked(number, word):
                known = "status, token, tokens, end, open, logins and end-login"
                yield c.Answer(number, {"error": f'the web side has no answer to "{shown(word)}"; it knows {known}'})
        yield from self._scripts.hear(heard, self._doors, now)
        yield from self._services.hear(heard, self._doors, now)
        if self._settings.operator:
            yield from self._operator.hear(heard, self._doors[OPERATOR], now)

    def _public(self, request: Request, now: c.Now) -> Reply:
        """Decide about a request at the door for everybody."""
        if not request.path:
            return folder_of(self._sites.prefix)
        if request.path == LINK:
            return link_reply(request)
        if request.method == "OPTIONS" and self._sites.allowed(request):
            return Answer(status=204, headers=ALLOWED)
        found = self._scripts.reply(request, self._doors, now) or self._services.reply(request, self._doors, now)
        found = found or self._description.reply(request)
        return found or self._pages.answer(request) or _nothing_at(request)

    def _admit(self, request: Request, now: c.Now) -> Answer | None:
        """Judge a request at the door for everybody before its body comes: nobody sends one who has no right to, or to
        what has no use for one."""
        if is_of_script(request):
            return self._scripts.admits(request, now)
        if self._services.has(request):
            return self._services.admits(request)
        reply = link_reply(request) if request.path == LINK else self._description.reply(request)
        return reply if isinstance(reply, Answer) else self._pages.answer(request) or _nothing_at(request)

    def _for_operator(self, request: Request, now: c.Now) -> Reply:
        """Decide about a request at the operator's door."""
        found = self._monitoring.reply(request, self._doors, now) or self._for_operators.reply(request)
        return found or self._operator.reply(request, self._doors[OPERATOR], now) or _nothing_at(request)

    def _status(self) -> dict[str, Any]:
        """Return what the operator asks for."""
        return {
            name: {
                "connections": len(door),
                "answered": {str(status): count for status, count in sorted(door.answered.items())},
                "refused": dict(door.refused),
            }
            for name, door in self._doors.items()
        }


def _no_body(request: Request, now: c.Now) -> Answer:
    return refusal(400, "body", "nothing here has a use for a request's body")


def _nothing_at(request: Request) -> Answer:
    return refusal(404, "no-page", f"there is nothing at {shown(request.path)} here")


def _pages_of(settings: Settings) -> tuple[Pages, str]:
    """Return the pages, and why those of one's own are not among them, "" if they are."""
    try:
        return Pages({**read_apps(settings.apps), **read_static()}), ""
    except NoApps as error:
        return Pages(read_static()), str(error)
