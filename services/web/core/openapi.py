"""What may be asked for over HTTP, as OpenAPI 3.1 describes it: made from the operations and their types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from router.core.wire.text import counted
from router.service.http import JSON, PROBLEM, HttpProblem, Operation, Parameter

from .http.request import Answer, Request, refusal

PATH = "/openapi.json"
_REFERENCE = "#/components/schemas/{name}"
_NAMES = re.compile(r"\{(\w+)\}")
_SAID = {
    200: "As asked.", 201: "Taken.", 202: "Kept here, and not in custody yet.", 503: "Not at this time, and why."
}  # fmt: skip


class Description:
    """The description of a door, made when it is first asked for. `operations`: with the path before each."""

    def __init__(self, operations: Iterable[tuple[str, Operation]], prefix: str) -> None:
        self._operations = tuple(operations)
        self._prefix = prefix
        self._made = b""

    def __repr__(self) -> str:
        return f"<description of {counted(len(self._operations), 'operation')}>"

    def reply(self, request: Request) -> Answer | None:
        """Return the description; None if the request is for something else."""
        if request.path != PATH:
            return None
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "method", "this is there to GET", ("Allow", "GET, HEAD"))
        self._made = self._made or described(self._operations, self._prefix)
        return Answer(status=200, body=self._made, kind=JSON)


def described(operations: Iterable[tuple[str, Operation]], prefix: str) -> bytes:
    """Return the description of these operations, each with the path before its own. `prefix`: the path of the node's
    URL."""
    all_ = list(operations)
    kinds = list(dict.fromkeys((HttpProblem, *(kind for _, one in all_ for kind in _kinds_of(one)))))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    schema_of = dict(zip(kinds, schemas, strict=True))
    paths = dict[str, dict[str, Any]]()
    for root, one in all_:
        paths.setdefault(f"{root}{one.path}", {})[one.method.lower()] = _operation(one, schema_of)
    value = {
        "openapi": "3.1.0",
        "info": {"title": "A node over HTTP", "version": "1"},
        "servers": [{"url": f"{quote(prefix)}/"}] if prefix else [],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps({name: one for name, one in value.items() if one}).encode() + b"\n"


def _kinds_of(one: Operation) -> Iterator[Any]:
    """Yield the types that an operation names."""
    yield from (parameter.kind for parameter in one.parameters)
    for named in (one.body, *one.answers.values()):
        yield from (kind for kind in _several(named) if not isinstance(kind, str))


def _several(named: Any) -> Sequence[Any]:
    return named if isinstance(named, tuple) else (named,)


def _operation(one: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": one.id, "summary": one.about, "responses": _answers(one, schema_of)}
    in_path = set(_NAMES.findall(one.path))
    if one.parameters:
        found["parameters"] = [_parameter(each, each.name in in_path, schema_of) for each in one.parameters]
    if one.body:
        found["requestBody"] = {"required": True, "content": _content(one.body, schema_of)}
    if one.needs_token:
        found["security"] = [{"token": []}]
    return found


def _parameter(one: Parameter, in_path: bool, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    place = {"in": "path", "required": True} if in_path else {"in": "query"}
    return {"name": one.name, "description": one.about, **place, "schema": schema_of[one.kind]}


def _answers(one: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        str(status): {"description": _SAID.get(status, "As asked."), "content": _content(_several(kind), schema_of)}
        for status, kind in one.answers.items()
    }
    problem = {PROBLEM: {"schema": schema_of[HttpProblem]}, "text/plain": {}}
    for status, text in one.refusals.items():
        found[str(status)] = {"description": text, "content": problem}
    return found


def _content(named: Sequence[Any], schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what a body may be: one of several types in JSON, or of several media types."""
    if isinstance(named[0], str):
        return {kind: {} for kind in named}
    schemas = [schema_of[kind] for kind in named]
    return {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}}
