"""Health and metrics: the router is asked once a second at most, however many want to know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c
from router.service.verbs.inquire import Word

from .http.door import HttpDoor
from .http.request import JSON, Answer, Later, Reply, Request, as_json, refusal

LIVE, READY, METRICS = "/health/live", "/health/ready", "/metrics"
FRESH_S = 1.0
"""Seconds for which an answer of the router serves all who ask."""
FRESH_OF_PAGE_S = 2.0
"""Seconds for which an answer of the router serves the operator's page, which asks again about a second later: if it is
late, its next answer is on its way already."""
ACCEPTS_MAX = 8
"""Forms of the page of metrics that are kept until the router answers anew, by what clients accept."""
PATIENCE_S = 5.0
"""Seconds after which those who wait are told that the router does not answer."""
SERVICES_S = 2.0
"""Seconds after which the metrics of services that do not answer are left out."""
WAITING_MAX = 64
"""Most who wait for the router's answer."""
METRICS_WAITING_MAX = 48
"""Most of them who wait for metrics; the other places are for who asks whether this node is ready."""
WORD: Word = "metrics"
"""The question to the router; also the operator's page asks it."""
TAG, OF_SERVICE = "monitoring", "monitoring "
DRAINING, AWAY, SLOW = "draining", "router-away", "router-slow"


class PageOfMetrics(Protocol):
    """Makes the page of metrics (`services.web.metrics_page.MetricsPage`)."""

    def is_told_by(self, module: str) -> bool: ...
    def page_of(self, node: Mapping[str, Any], statuses: Mapping[str, Any], accept: str) -> tuple[str, bytes]: ...


class _Waiting(Struct):
    door: str
    peer: str
    path: str
    accept: str
    by_s: float


class Monitoring:
    """Answers what monitors this node. `name`: of the web side itself; `status` returns its own status."""

    def __init__(self, page: PageOfMetrics, name: str, status: Callable[[], Mapping[str, Any]]) -> None:
        self._page = page
        self._name = name
        self._status = status
        self._waiting: list[_Waiting] = []
        self._is_asking = False
        self._told: c.Told | None = None
        self._fresh_until_s = 0.0
        self._pages: dict[str, Answer] = {}  # of metrics, by what their clients accept
        self._statuses: dict[str, Any] = {}  # of the services that have answered
        self._awaited: set[str] = set()  # the services that are to answer
        self._services_by_s = 0.0
        self._is_whole = False  # all services have been asked since the router's answer, and none is awaited

    def __repr__(self) -> str:
        return f"<monitoring: {counted(len(self._waiting), 'client')} wait>"

    def __len__(self) -> int:
        return len(self._waiting)

    def reply(self, request: Request, doors: Mapping[str, HttpDoor], now: c.Now) -> Reply | None:
        """Return the answer to who monitors; None if the request is of another kind."""
        if request.path not in (LIVE, READY, METRICS):
            return None
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "method", "this is there to GET", ("Allow", "GET, HEAD"))
        if request.path == LIVE:
            return Answer(status=200, body=b"alive\n")
        accept, told = request.header(b"accept"), self._told if now.mono_s < self._fresh_until_s else None
        if told is not None and self._can_answer(request.path, told):
            return self._answer(request.path, accept, told)
        left = [] if self._has_room(request.path) else list(self._end_those_of_gone(doors, now))
        if not self._has_room(request.path):
            full = self._full()
            return Later((*left, *doors[request.door].answer(request.peer, full, now))) if left else full
        self._waiting.append(_Waiting(request.door, request.peer, request.path, accept, now.mono_s + PATIENCE_S))
        if self._is_asking or (self._awaited and request.path == METRICS):
            return Later(tuple(left))
        if told is not None and request.path == METRICS:  # as the operator's page has been told
            return Later((*left, *self._ask_services(self._to_ask(told), now)))
        self._is_asking = True
        return Later((*left, c.Inquire(WORD, "", TAG)))

    def _has_room(self, path: str) -> bool:
        of_metrics = sum(one.path == METRICS for one in self._waiting)
        return len(self._waiting) < WAITING_MAX and (path != METRICS or of_metrics < METRICS_WAITING_MAX)

    def _full(self) -> Answer:
        said = f"{len(self._waiting)} wait for the router already; ask again"
        return refusal(503, "busy", said, ("Retry-After", "1"))

    def _end_those_of_gone(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """End the waiting of clients that have gone, or say no more and may have, in favour of others."""
        gone = [one for one in self._waiting if doors[one.door].may_have_gone(one.peer)]
        self._waiting = [one for one in self._waiting if not doors[one.door].may_have_gone(one.peer)]
        for one in gone:
            yield from doors[one.door].answer_later(one.peer, self._full(), now)

    def told(self, heard: c.Told, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Answer those who wait for this, as far as it is all that they wait for. What the operator's page is told of
        metrics serves here as well."""
        if heard.word == WORD and (heard.tag == TAG or not heard.error):
            self._is_asking = self._is_asking and heard.tag != TAG
            fresh_s = FRESH_S if heard.tag == TAG else FRESH_OF_PAGE_S
            self._told, self._fresh_until_s, self._is_whole = heard, now.mono_s + fresh_s, False
            self._pages.clear()
            if not (heard.error or self._awaited):
                others = self._to_ask(heard)
                if not others:
                    self._statuses, self._is_whole = {}, True
                elif any(one.path == METRICS for one in self._waiting):
                    yield from self._ask_services(others, now)
        elif heard.tag.removeprefix(OF_SERVICE) in self._awaited:
            name = heard.tag.removeprefix(OF_SERVICE)
            self._awaited.discard(name)
            if not heard.error:
                self._statuses[name] = heard.answer
            self._is_whole = not self._awaited
        else:
            return
        yield from self._answer_all(doors, now)

    def _to_ask(self, told: c.Told) -> list[str]:
        """Return the other services that run and say something of themselves."""
        running = [(one["name"], one["module"]) for one in told.answer["services"] if one["state"] == "running"]
        return [name for name, module in running if self._page.is_told_by(module) and name != self._name]

    def _ask_services(self, names: list[str], now: c.Now) -> Iterator[c.Deed]:
        """Ask these services how they are."""
        self._statuses, self._awaited, self._services_by_s = {}, set(names), now.mono_s + SERVICES_S
        for name in names:
            yield c.Inquire("service", name, f"{OF_SERVICE}{name}")

    def tick(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Go on without services that do not answer; tell those who have waited long that the router does not."""
        if self._awaited and self._services_by_s <= now.mono_s:
            self._awaited.clear()
            self._is_whole = True
            yield from self._answer_all(doors, now)
        late = [one for one in self._waiting if one.by_s <= now.mono_s]
        self._waiting = [one for one in self._waiting if one.by_s > now.mono_s]
        said = f"the router has not answered within {PATIENCE_S:g} s; `router status` may say why"
        for one in late:
            answer = _unready([(SLOW, said)]) if one.path == READY else refusal(503, SLOW, said)
            yield from doors[one.door].answer_later(one.peer, answer, now)

    def _answer_all(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        told = self._told
        if told is None:
            return
        ready = [one for one in self._waiting if self._can_answer(one.path, told)]
        self._waiting = [one for one in self._waiting if not self._can_answer(one.path, told)]
        for one in ready:
            yield from doors[one.door].answer_later(one.peer, self._answer(one.path, one.accept, told), now)

    def _can_answer(self, path: str, told: c.Told) -> bool:
        return path == READY or bool(told.error) or self._is_whole

    def _answer(self, path: str, accept: str, told: c.Told) -> Answer:
        if told.error:
            reason = DRAINING if told.is_stopping else AWAY
            return _unready([(reason, told.error)]) if path == READY else refusal(503, reason, told.error)
        if path == READY:
            return _unready(told.answer["unready"]) if told.answer["unready"] else as_json({"ready": True})
        if (found := self._pages.get(accept)) is not None:
            return found
        kind, body = self._page.page_of(told.answer, {**self._statuses, self._name: self._status()}, accept)
        made = Answer(status=200, body=body, kind=kind)
        if len(self._pages) < ACCEPTS_MAX:
            self._pages[accept] = made
        return made


def _unready(rows: list[tuple[str, str]]) -> Answer:
    value = {"ready": False, "reasons": [{"reason": reason, "detail": text} for reason, text in rows]}
    return Answer(status=503, body=json.dumps(value).encode() + b"\n", kind=JSON)
