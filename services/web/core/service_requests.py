"""Requests that other services of this node answer: each has its own path, and an `http.py` in its folder that
decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.text import counted
from router.service import contract as c
from router.service import http as h

from .http.callers import counted_as
from .http.door import HttpDoor
from .http.request import Answer, Flow, Later, Reply, Request, refusal, shown

TAG = "http/"
"""How the tags of their deeds begin here; the service's name follows."""
OPEN_MAX = 512
"""Most requests to services that are open at once."""
_NAME = re.compile(r"\{(\w+)\}")


class _Open(Struct):
    door: str
    peer: str
    service: str
    is_head: bool


class ServiceRequests:
    """The services that answer over HTTP, and the requests to them that are open, by number."""

    def __init__(self, found: Sequence[h.FoundOverHttp]) -> None:
        self.services = {one.name: one for one in found}
        self._by_address = {one.address: one for one in found}
        self._operations = {one.name: tuple(one.answers.operations()) for one in found}
        self._numbers = count(1)
        self._open: dict[int, _Open] = {}

    def __repr__(self) -> str:
        return f"<{counted(len(self._open), 'request')} to {', '.join(self.services) or 'no services'}>"

    def __len__(self) -> int:
        return len(self._open)

    def operations(self) -> Iterator[tuple[str, h.Operation]]:
        """Yield what may be asked for, each with the path of its service."""
        for name, operations in self._operations.items():
            yield from ((f"/{name}", one) for one in operations)

    # -- asking --------------------------------------------------------------------------------------------

    def has(self, request: Request) -> bool:
        """Whether a request is to a service."""
        return _addressed(request)[0] in self.services

    def admits(self, request: Request) -> Answer | None:
        """Return why a request to a service is refused whatever its body is, which has not come yet; None if it may
        come."""
        name, rest = _addressed(request)
        chosen = self._chosen(name, f"/{rest}", request)
        if isinstance(chosen, Answer) or chosen[0].body:
            return chosen if isinstance(chosen, Answer) else self._full()
        return refusal(400, "body", f"{request.method} {shown(request.path)} has no body")

    def _full(self) -> Answer | None:
        if len(self._open) < OPEN_MAX:
            return None
        said = f"{OPEN_MAX} requests to services of this node are open already; ask again later"
        return refusal(503, "requests-full", said, ("Retry-After", "5"))

    def reply(self, request: Request, doors: Mapping[str, HttpDoor], now: c.Now) -> Reply | None:
        """Return the answer of a service; None if the request is to none."""
        name, rest = _addressed(request)
        found = self.services.get(name)
        if found is None:
            return None
        chosen = self._chosen(name, f"/{rest}", request)
        if isinstance(chosen, Answer):
            return chosen
        if (full := self._full()) is not None:
            return full
        operation, values = chosen
        known = [one.name for one in operation.parameters if one.name not in values]
        if (refused := request.unknown_parameters(known)) is not None:
            return refused
        asked = _asked(request, next(self._numbers), operation, values)
        self._open[asked.number] = _Open(request.door, request.peer, name, request.method == "HEAD")
        follows = found.answers.hear_request(asked, now)
        return Later(tuple(self._carried(name, follows, doors, now, asked.number)))

    def _chosen(self, name: str, path: str, request: Request) -> tuple[h.Operation, Mapping[str, str]] | Answer:
        """Return the operation that is asked for, with the values in the path, or why there is none."""
        fits = [(one, values) for one in self._operations[name] if (values := values_in(one.path, path)) is not None]
        method = "GET" if request.method == "HEAD" else request.method
        for one, values in fits:
            if one.method == method:
                return one, values
        if fits:
            allowed = ", ".join(sorted({one.method for one, _ in fits}))
            said = f"there is {allowed} here, and no {shown(request.method)}"
            return refusal(405, "method", said, ("Allow", allowed))
        paths = ", ".join(dict.fromkeys(f"/{name}{one.path}" for one in self._operations[name]))
        return refusal(404, "no-page", f"there is nothing at {shown(request.path)} here, but at {paths}")

    # -- hearing -------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Let the services' answers hear what concerns them."""
        if isinstance(heard, c.Message):
            found = None if heard.source is None else self._by_address.get(heard.source)
            if found is not None:
                yield from self._carried(found.name, found.answers.hear(heard, now), doors, now)
        elif isinstance(heard, c.Tick):
            yield from self._tick(heard, doors, now)
        elif (tag := getattr(heard, "tag", "")).startswith(TAG):
            name, _, own = tag.removeprefix(TAG).partition("/")
            if name not in self.services:  # an earlier life had another one
                return
            own_heard = replace(heard, tag=own)
            yield from self._carried(name, self.services[name].answers.hear(own_heard, now), doors, now)

    def _tick(self, heard: c.Tick, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        for number, one in [(number, one) for number, one in self._open.items() if one.peer not in doors[one.door]]:
            yield from self._end(number, one, doors, now)
        for name in dict.fromkeys(one.service for one in self._open.values()):
            yield from self._carried(name, self.services[name].answers.hear(heard, now), doors, now)

    def _end(self, number: int, one: _Open, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        self._open.pop(number, None)
        yield from self._carried(one.service, self.services[one.service].answers.gone(number, now), doors, now)

    # -- answering -----------------------------------------------------------------------------------------

    def _carried(
        self,
        name: str,
        deeds: Iterable[h.HttpDeed],
        doors: Mapping[str, HttpDoor],
        now: c.Now,
        present: int | None = None,
    ) -> Iterator[c.Deed]:
        """Carry out what a service's answers decide. `present`: the number of the request that is being heard; those
        that have come behind it are read afterwards."""
        for deed in deeds:
            match deed:
                case h.HttpAnswer(number):
                    if (one := self._open.pop(number, None)) is not None:
                        door = doors[one.door]
                        give = door.answer if number == present else door.answer_later
                        yield from give(one.peer, _answer(deed), now)
                case h.HttpFlow(number, kind, first):
                    if (one := self._open.get(number)) is not None:
                        yield from doors[one.door].begin_flow(one.peer, Flow(kind, first=first), now)
                        if one.is_head:
                            yield from self._end(number, one, doors, now)
                            if number != present:
                                yield from doors[one.door].read_on(one.peer, now)
                case h.HttpPiece(number, data):
                    if (one := self._open.get(number)) is not None:
                        yield from doors[one.door].send(one.peer, data)
                        if deed.is_last:
                            del self._open[number]
                            yield from doors[one.door].finish(one.peer, now)
                case c.Deed():
                    yield _tagged(deed, name)


def _addressed(request: Request) -> tuple[str, str]:
    """Return the service that a request would be to, and the rest of its path."""
    name, _, rest = request.path.removeprefix("/").partition("/")
    return name, rest


def _tagged(deed: c.Deed, name: str) -> c.Deed:
    """Return a deed with the tag by which its service's answers are found again."""
    tag: str = getattr(deed, "tag", "")
    changed: Any = replace(deed, tag=f"{TAG}{name}/{tag}") if tag else deed
    return changed  # type: ignore[no-any-return]


def _answer(deed: h.HttpAnswer) -> Answer:
    return Answer(status=deed.status, body=deed.body, kind=deed.kind, headers=deed.headers, reason=deed.reason)


def _asked(request: Request, number: int, operation: h.Operation, values: Mapping[str, str]) -> h.HttpRequest:
    """Return the request as services hear it. Raises `ValueError`."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.head.headers}
    caller = counted_as(request.caller) if request.caller else ""
    return h.HttpRequest(number, operation.id, values, request.parameters(), headers, request.body, caller)


def values_in(template: str, path: str) -> Mapping[str, str] | None:
    """Return the values that stand in a path where a template has names; None if it is another path."""
    wanted, given = template.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    values = dict[str, str]()
    for one, part in zip(wanted, given, strict=True):
        if (name := _NAME.fullmatch(one)) is not None and part:
            values[name[1]] = part
        elif one != part:
            return None
    return values
