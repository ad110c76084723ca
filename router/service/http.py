"""Answers over HTTP in a service's name: what a file `http.py` in its folder gives.

    class BellOverHttp:                                # bell/http.py, one class with `hear_request`
        def __init__(self, setup: HttpSetup) -> None: ...
        def operations(self) -> Sequence[Operation]: ...
        def hear_request(self, request: HttpRequest, now: Now) -> Iterable[HttpDeed]: ...
        def hear(self, heard: Heard, now: Now) -> Iterable[HttpDeed]: ...
        def gone(self, number: int, now: Now) -> Iterable[HttpDeed]: ...

The service that has the doors for HTTP finds such files by their name and calls these classes as rules are called. They
run beside its own rules, with its key, and so ask their service as any app does: by a `Send` to its address. What they
hear is the answer (`Message` of that address), what became of deeds with a tag of theirs, and `Tick` each second while
a request is open. They keep nothing on disk.

Requests lie below `/NAME`, the service's name. They are judged by the operations: another path or method never gets
here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance, Heard, Now
from router.service.verbs.verb import Deed

JSON, PROBLEM = "application/json", "application/problem+json"
LINES, EVENTS = "application/x-ndjson", "text/event-stream"


class HttpSetup(Struct, frozen=True):
    """The arguments of such a class: the service's name on this node, its address, and its settings."""

    name: str
    address: PublicKey
    settings: Any
    chance: Chance


class HttpRequest(Struct, frozen=True):
    """A request.

    `operation`: the id of the operation that it asks for; `values`: those in its path; `parameters`: those behind the
    `?`; `headers`: by their names in small letters; `caller`: what all requests of one client have in common, an IPv4
    address or an IPv6 /64, "" at a Unix socket."""

    number: int
    operation: str
    values: Mapping[str, str]
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    caller: str

    def accepts(self, kind: str) -> bool:
        """Whether the client names this media type among those that it takes."""
        return kind in self.headers.get("accept", "").lower()


class Parameter(Struct, frozen=True):
    """A parameter behind the `?` or in the path. `kind`: its type, from which its schema is made."""

    name: str
    about: str
    kind: Any = str


class Operation(Struct, frozen=True):
    """What may be asked for: a method, and a path below the service's own, with names in braces.

    `body`: the types of which the body is one, or its media types; `answers`: by status, the type of the answer's JSON,
    or several of which it is one, or its media types; of a refusal, whose form is the same everywhere, only the
    sentence. `needs_token`: of the web side's own operations alone, since tokens are for groups; other services judge
    their requests themselves."""

    id: str
    method: str
    path: str
    about: str
    parameters: tuple[Parameter, ...] = ()
    body: tuple[Any, ...] = ()
    answers: Mapping[int, Any] = {}
    refusals: Mapping[int, str] = {}
    needs_token: bool = False


class HttpProblem(Struct, frozen=True):
    """A refusal as programs read it (RFC 9457). `reason`: its word; `detail`: what is wrong and what to do."""

    status: int
    reason: str
    detail: str


# -- what such a class answers, beside deeds of its own ---------------------------------------------------------------


class HttpAnswer(Struct, frozen=True):
    """The answer to the request with this number. `reason`: the word of a refusal, by which they are counted."""

    number: int
    status: int
    body: bytes
    kind: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    reason: str = ""


class HttpFlow(Struct, frozen=True):
    """The beginning of an answer without an end; `gone` tells when its client has left."""

    number: int
    kind: str
    first: bytes = b""


class HttpPiece(Struct, frozen=True):
    """More of an answer without an end. `is_last`: ends it here; `gone` is not told of it."""

    number: int
    data: bytes
    is_last: bool = False


HttpDeed = Deed | HttpAnswer | HttpFlow | HttpPiece


def answered(number: int, value: object, status: int = 200) -> HttpAnswer:
    """Return an answer in JSON."""
    return HttpAnswer(number, status, json.dumps(value).encode() + b"\n")


def refused(number: int, status: int, reason: str, text: str, *headers: tuple[str, str]) -> HttpAnswer:
    """Return an answer that says why there is no other, as a sentence."""
    body = json.dumps({"status": status, "reason": reason, "detail": text}).encode() + b"\n"
    return HttpAnswer(number, status, body, PROBLEM, headers, reason)


def event(name: str, value: Mapping[str, object], kind: str, id: str = "") -> bytes:
    """Return an event of an answer without an end: a JSON line, or a server-sent event."""
    text = json.dumps({"event": name, **value})
    if kind != EVENTS:
        return f"{text}\n".encode()
    lines = [f"id: {id}"] if id else []
    if name != "message":  # as browsers call an event without a name
        lines.append(f"event: {name}")
    return "\n".join([*lines, f"data: {text}", "", ""]).encode()


class ServiceOverHttp(Protocol):
    """Answers in a service's name."""

    def __init__(self, setup: HttpSetup) -> None: ...

    def operations(self) -> Sequence[Operation]:
        """Return what may be asked for."""

    def hear_request(self, request: HttpRequest, now: Now) -> Iterable[HttpDeed]:
        """Decide about a request; the answer may come later."""

    def hear(self, heard: Heard, now: Now) -> Iterable[HttpDeed]:
        """Decide what follows from something else."""

    def gone(self, number: int, now: Now) -> Iterable[HttpDeed]:
        """Forget a request whose client has left before its answer, or in the midst of one without an end."""


class FoundOverHttp(Struct, frozen=True):
    """A service of this node that answers over HTTP: its name and address, and what answers for it."""

    name: str
    address: PublicKey
    answers: ServiceOverHttp
