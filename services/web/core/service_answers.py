"""What answers over HTTP in the name of one service: somebody else's file http.py, whose faults end nothing but what it
was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import h11
import msgspec
from msgspec.structs import asdict

from router.core.wire.errors import RouterError, cause_of, line_in
from router.service import contract as c
from router.service import http as h

from .openapi import described

_METHOD = re.compile(r"[A-Z]+\Z")
_BYTES = {"body", "first", "data"}
_OF_HTTP = (h.HttpAnswer, h.HttpFlow, h.HttpPiece)


class WrongAnswer(RouterError):
    """What a service's http.py returned cannot be carried out; the text says why and what to do."""


class ServiceAnswers:
    """The file http.py of one service. `fault`: why it answers nothing, "" if it does."""

    def __init__(self, found: h.FoundOverHttp) -> None:
        self.name, self.address = found.name, found.address
        self.fault = found.fault
        self.operations: Sequence[h.Operation] = ()
        self._answers = found.answers
        self._judge = found.judge
        if found.answers is not None:
            try:
                self.operations = _judged(found.name, found.answers.operations())
            except (Exception, SystemExit) as error:
                self.fault = self.sentence("operations", error)

    def __repr__(self) -> str:
        return f"<answers of {self.name}: {self.fault or f'{len(self.operations)} operations'}>"

    def call(self, method: str, about: Any, now: c.Now) -> Sequence[h.HttpDeed]:
        """Return what it decides, judged. Whatever it raises is its own fault."""
        hears_message = isinstance(about, c.Message)
        found: Iterable[h.HttpDeed] = getattr(self._answers, method)(about, now)
        return [self._deed(one, hears_message=hears_message) for one in found]

    def sentence(self, method: str, error: BaseException) -> str:
        """Return the sentence about a failure for the operator: the service, the file, the line and the cause."""
        file = f"{type(self._answers).__module__.replace('.', '/')}.py"
        line = line_in(error, file)
        where = f"{file}{f', line {line}' if line else ''}"
        return f"http.py of {self.name} failed in {method} ({where}): {cause_of(error)}; mend that file"

    def _deed(self, deed: object, *, hears_message: bool) -> h.HttpDeed:
        """Return a deed that can be carried out. Raises `WrongAnswer`, or what msgspec and h11 raise."""
        if isinstance(deed, c.Put):
            raise WrongAnswer("it returned Put, but http.py keeps nothing on disk; ask the service to keep it, by Send")
        if not isinstance(deed, _OF_HTTP):
            return self._judge(deed, hears_message=hears_message)
        for name in _BYTES & set(deed.__struct_fields__):
            if not isinstance(getattr(deed, name), bytes):  # msgspec would take text for base64
                raise WrongAnswer(f"it returned {type(deed).__name__} with a {name} that is no bytes; encode it")
        msgspec.convert(asdict(deed), type(deed))
        if isinstance(deed, h.HttpAnswer):
            h11.Response(status_code=deed.status, headers=[("Content-Type", deed.kind), *deed.headers])
        elif isinstance(deed, h.HttpFlow):
            h11.Response(status_code=200, headers=[("Content-Type", deed.kind)])
        return deed


def _judged(name: str, found: Iterable[h.Operation]) -> Sequence[h.Operation]:
    """Return the operations of a service. Raises `WrongAnswer` with a sentence."""
    operations = tuple(found)
    for one in operations:
        if not isinstance(one, h.Operation):
            raise WrongAnswer(f"it returned something of type {type(one).__name__}; return a list of Operation")
        said = f"its operation {one.id}"
        if not one.path.startswith("/"):
            raise WrongAnswer(f'{said} has the path "{one.path}"; begin it with /, it is below /{name}')
        if not _METHOD.match(one.method):
            raise WrongAnswer(f'{said} has the method "{one.method}"; write one as "GET" or "POST"')
        if one.needs_token:
            said += " needs a token, but nothing judges tokens for services"
            raise WrongAnswer(f"{said}; judge the request in hear_request, by its headers")
    described([(f"/{name}", one) for one in operations], "")
    return operations
