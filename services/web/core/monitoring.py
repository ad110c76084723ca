"""Health and metrics: the router is asked once a second at most, however many want to know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c

from .http_door import HttpDoor
from .request import JSON, Answer, Later, Reply, Request, as_json, refusal

LIVE, READY, METRICS = "/health/live", "/health/ready", "/metrics"
FRESH_S = 1.0
"""Seconds for which an answer of the router serves all who ask."""
PATIENCE_S = 5.0
"""Seconds after which those who wait are told that the router does not answer."""
WAITING_MAX = 64
"""Most who wait for the router's answer."""
TAG = "monitoring"

PageOf = Callable[[Mapping[str, Any], Mapping[str, Any], str], tuple[str, bytes]]
"""Returns media type and text of the metrics, of the node's answer, the web side's status, and what a client takes."""


class _Waiting(Struct):
    door: str
    peer: str
    path: str
    accept: str
    by_s: float


class Monitoring:
    """Answers what monitors this node. `page_of` makes the page of metrics; `status` returns the web side's own."""

    def __init__(self, page_of: PageOf, status: Callable[[], Mapping[str, Any]]) -> None:
        self._page_of = page_of
        self._status = status
        self._waiting: list[_Waiting] = []
        self._is_asking = False
        self._told: c.Told | None = None
        self._told_s = 0.0

    def __repr__(self) -> str:
        return f"<monitoring: {counted(len(self._waiting), 'client')} wait>"

    def __len__(self) -> int:
        return len(self._waiting)

    def reply(self, request: Request, now: c.Now) -> Reply | None:
        """Return the answer to who monitors; None if the request is of another kind."""
        if request.path not in (LIVE, READY, METRICS):
            return None
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "method", "this is there to GET", ("Allow", "GET, HEAD"))
        if request.path == LIVE:
            return Answer(status=200, body=b"alive\n")
        accept = request.header(b"accept")
        if self._told is not None and now.mono_s - self._told_s < FRESH_S:
            return self._answer(request.path, accept, self._told)
        if len(self._waiting) >= WAITING_MAX:
            said = f"{WAITING_MAX} wait for the router already; ask again"
            return refusal(503, "busy", said, ("Retry-After", "1"))
        self._waiting.append(_Waiting(request.door, request.peer, request.path, accept, now.mono_s + PATIENCE_S))
        if self._is_asking:
            return Later()
        self._is_asking = True
        return Later((c.Inquire("metrics", "", TAG),))

    def told(self, heard: c.Told, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Answer all who wait."""
        if heard.tag != TAG:
            return
        self._is_asking, self._told, self._told_s = False, heard, now.mono_s
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            answer = self._answer(one.path, one.accept, heard)
            yield from doors[one.door].answer_later(one.peer, answer, now)

    def tick(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Tell those who have waited long that the router does not answer."""
        late = [one for one in self._waiting if one.by_s <= now.mono_s]
        self._waiting = [one for one in self._waiting if one.by_s > now.mono_s]
        said = f"the router has not answered within {PATIENCE_S:g} s; `router status` may say why"
        for one in late:
            answer = _unready([("router-slow", said)]) if one.path == READY else refusal(503, "router-slow", said)
            yield from doors[one.door].answer_later(one.peer, answer, now)

    def _answer(self, path: str, accept: str, told: c.Told) -> Answer:
        if told.error:
            return _unready([("router-away", told.error)]) if path == READY else refusal(503, "router-away", told.error)
        if path == READY:
            return _unready(told.answer["unready"]) if told.answer["unready"] else as_json({"ready": True})
        kind, body = self._page_of(told.answer, self._status(), accept)
        return Answer(status=200, body=body, kind=kind)


def _unready(rows: list[tuple[str, str]]) -> Answer:
    value = {"ready": False, "reasons": [{"reason": reason, "detail": text} for reason, text in rows]}
    return Answer(status=503, body=json.dumps(value).encode() + b"\n", kind=JSON)
