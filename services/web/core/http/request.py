"""Requests and answers of HTTP as values."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

import h11
from msgspec import Struct

from router.core.wire.text import clean
from router.service.contract import Deed

from .limits import PARAMETERS_MAX

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
SHOWN_CHARS_MAX = 100
"""Characters that an answer shows of what a client said."""
PHRASES = {
    200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 304: "Not Modified", 308: "Permanent Redirect",
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 413: "Content Too Large", 421: "Misdirected Request", 422: "Unprocessable Content",
    426: "Upgrade Required", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
    504: "Gateway Timeout", 505: "HTTP Version Not Supported",
}  # fmt: skip
"""What the statuses are called."""
_ALWAYS = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
     "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)  # fmt: skip
"""The headers of every answer that has no others of these names: nothing is loaded from elsewhere, nothing runs that
stands in a page itself, and nothing is kept."""


class Answer(Struct, frozen=True, kw_only=True):
    """An answer. `reason`: the word of a refusal, by which they are counted; `is_last`: the connection ends with it."""

    status: int
    body: bytes = b""
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    is_last: bool = False

    def with_headers(self, *more: tuple[str, str]) -> Answer:
        """Return this answer with further headers."""
        return Answer(
            status=self.status,
            body=self.body,
            kind=self.kind,
            headers=(*self.headers, *more),
            reason=self.reason,
            is_last=self.is_last,
        )

    def all_headers(self) -> list[tuple[str, str]]:
        """Return the headers as they are sent."""
        own = {name.lower() for name, _ in self.headers}
        found = [*(one for one in _ALWAYS if one[0].lower() not in own), *self.headers]
        if self.reason:
            found.append(("X-Reason", self.reason))
        if self.body:
            found.append(("Content-Type", self.kind))
        return found


class Later(NamedTuple):
    """The answer comes later; these deeds lead to it."""

    deeds: tuple[Deed, ...] = ()


class Flow(NamedTuple):
    """An answer without an end: its media type, headers, first bytes, and the deeds that go with it. `is_known`: the
    client has proven who it is, so that the connection does not give way to another one."""

    kind: str
    headers: tuple[tuple[str, str], ...] = ()
    first: bytes = b""
    deeds: tuple[Deed, ...] = ()
    is_known: bool = False


class Link(NamedTuple):
    """The connection becomes a WebSocket, which is handed over to the router."""


Reply = Answer | Later | Flow | Link


class Request(Struct, frozen=True, kw_only=True):
    """A whole request. `caller`: the IP address that it comes from, as far as that is known; `path`: below that of the
    node's URL, decoded; `fields`: its headers (`fields_of`)."""

    door: str
    peer: str
    caller: str
    path: str
    head: h11.Request
    fields: Mapping[bytes, str]
    body: bytes = b""

    @property
    def method(self) -> str:
        return self.head.method.decode("latin-1")

    @property
    def authority(self) -> str:
        """Return the name and port of the site that is asked for: those of the target if it is a whole URL, whatever
        the header Host says (RFC 9112, section 3.2.2)."""
        target = self.head.target.partition(b"?")[0].decode("latin-1")
        return target.partition("://")[2].partition("/")[0] if is_absolute(target) else self.header(b"host")

    def header(self, name: bytes) -> str:
        """Return the value of a header; of several lines, joined by commas; "" if there is none."""
        return self.fields.get(name, "")

    def parameters(self) -> Mapping[str, str]:
        """Return the parameters behind the `?`, of which the last of a name counts. Raises `ValueError`."""
        query = self.head.target.partition(b"?")[2].decode("latin-1")
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX))

    def unknown_parameters(self, known: Collection[str]) -> Answer | None:
        """Return why a request with other parameters than the `known` ones is refused; None if it has none."""
        try:
            others = [name for name in self.parameters() if name not in known]
        except ValueError:
            return refusal(400, "parameters", "what stands behind the ? has too many parameters")
        if not others:
            return None
        said = f'there is no parameter "{shown(others[0])}" here; known: {", ".join(sorted(known)) or "none"}'
        return refusal(400, "parameters", said)

    def accepts(self, kind: str) -> bool:
        """Whether the client names this media type, or a part of it, among those that it takes."""
        return kind in self.header(b"accept").lower()


def fields_of(head: h11.Request) -> Mapping[bytes, str]:
    """Return the values of the headers by their names in small letters; those of several lines are joined by commas."""
    found: dict[bytes, str] = {}
    for name, value in list(head.headers):
        text = value.decode("latin-1")
        found[name] = f"{found[name]},{text}" if name in found else text
    return found


def is_absolute(target: str) -> bool:
    """Whether this is a whole URL, as a proxy is asked."""
    return "://" in target and not target.startswith("/")


def path_of(target: bytes, prefix: str) -> str:
    """Return the path of a request's target, decoded; without the prefix, which a proxy strips or leaves, and "" if
    there is nothing else, so that what is relative would lead astray."""
    text = target.partition(b"?")[0].decode("latin-1")
    if is_absolute(text):
        text = "/" + text.partition("://")[2].partition("/")[2]
    path = unquote(text, errors="replace")
    if prefix and (path == prefix or path.startswith(f"{prefix}/")):
        path = path[len(prefix) :]
    return path


def refusal(status: int, reason: str, text: str, *headers: tuple[str, str], is_last: bool = False) -> Answer:
    """Return an answer that says why there is no other, as a sentence."""
    return Answer(status=status, body=f"{text}\n".encode(), headers=headers, reason=reason, is_last=is_last)


def as_problem(found: Answer) -> Answer:
    """Return a refusal as programs read it (RFC 9457)."""
    value = {"status": found.status, "reason": found.reason, "detail": found.body.decode(errors="replace").rstrip()}
    body = json.dumps(value).encode() + b"\n"
    return Answer(
        status=found.status,
        body=body,
        kind="application/problem+json",
        headers=found.headers,
        reason=found.reason,
        is_last=found.is_last,
    )


def as_json(value: object, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """Return an answer in JSON."""
    return Answer(status=status, body=json.dumps(value).encode() + b"\n", kind=JSON, headers=headers)


def shown(text: str) -> str:
    """Return what a client said as a part of a sentence."""
    return clean(text, SHOWN_CHARS_MAX)
