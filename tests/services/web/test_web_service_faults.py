"""A fault in a service's http.py ends the requests that it is about, is told with file and line, and ends no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from rigs.web_sides import KEY, WebSide, body_of, request, status_of

from router.service import contract as c
from router.service.deed_checks import DeedChecks
from router.service.http import FoundOverHttp, HttpAnswer, HttpFlow, HttpPiece, HttpRequest, Operation, answered
from services.web.core.service_requests import ANSWER_S, WARN_AGAIN_S

RING = [Operation("ring", "GET", "/ring", "Ring.", answers={200: str})]
MESSAGE = c.Message(c.MessageId(bytes(32)), b"said", source=KEY)


class Bell:
    """Answers over HTTP what the test makes of it."""

    def __init__(self, **does: Any) -> None:
        self.does = does
        self.left: list[int] = []
        self.numbers: list[int] = []

    def operations(self) -> Sequence[Operation]:
        found: Sequence[Operation] = self.does.get("operations", RING)
        return found

    def hear_request(self, request: HttpRequest, now: c.Now) -> Iterable[Any]:
        self.numbers.append(request.number)
        return self._do("hear_request", request.number)

    def hear(self, heard: c.Heard, now: c.Now) -> Iterable[Any]:
        return [] if isinstance(heard, c.Tick) else self._do("hear", self.numbers[-1])

    def gone(self, number: int, now: c.Now) -> Iterable[Any]:
        self.left.append(number)
        return self._do("gone", number)

    def _do(self, name: str, number: int) -> Iterable[Any]:
        found = self.does.get(name, list)
        return found(number) if name in self.does else []


def fails(number: int) -> Iterable[Any]:
    raise LookupError(f"no bell {number}")


class Other(Bell):
    def hear_request(self, request: HttpRequest, now: c.Now) -> Iterable[Any]:
        return [answered(request.number, "fine")]


def side_with(bell: Bell | None, fault: str = "") -> WebSide:
    other = FoundOverHttp("other", KEY, Other())
    return WebSide(services=[other, FoundOverHttp("bell", KEY, bell, fault, DeedChecks().judge)])


def warnings(side: WebSide) -> list[str]:
    return [one.text for one in side.done if isinstance(one, c.Warn)]


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        (None, "NoneType"),
        ([1], "something of type int"),
        ([Operation("ring", "GET", "ring", "Ring.")], 'has the path "ring"; begin it with /'),
        ([Operation("ring", "get", "/ring", "Ring.")], 'has the method "get"'),
        ([Operation("ring", "GET", "/ring", "Ring.", needs_token=True)], "needs a token, but nothing judges tokens"),
        ([Operation("ring", "GET", "/ring", "Ring.", answers={200: object()})], "operations"),
    ],
)
def test_service_whose_operations_are_wrong_is_answered_503_and_others_go_on(operations: Any, said: str) -> None:
    side = side_with(Bell(operations=operations))
    answer = side.ask(request("/bell/ring"))
    assert status_of(answer) == 503 and b"X-Reason: service-broken" in answer
    (warning,) = warnings(side)
    assert said in warning and warning.startswith("http.py of bell failed in operations (")
    assert status_of(side.ask(request("/other/ring"))) == 200 and status_of(side.ask(request())) == 200
    assert status_of(side.ask(request("/openapi.json"))) == 200


def test_service_that_cannot_be_loaded_is_answered_503() -> None:
    side = side_with(None, "http.py of bell cannot be used: it is empty")
    assert status_of(side.ask(request("/bell/ring"))) == 503
    assert warnings(side) == ["http.py of bell cannot be used: it is empty"]


WRONG = {
    "raises": fails,
    "None": lambda number: None,
    "no deed": lambda number: ["ring"],
    "text": lambda number: [HttpAnswer(number, 200, "text")],  # type: ignore[arg-type]
    "status": lambda number: [HttpAnswer(number, 42, b"")],
    "header": lambda number: [HttpAnswer(number, 200, b"", headers=(("a b", "c\r\nd"),))],
    "disk": lambda number: [c.Put(b"token/x", b"")],
    "wrong field": lambda number: [c.Send("x", b"")],  # type: ignore[arg-type]
    "flow and answer": lambda number: [HttpFlow(number, "text/plain"), HttpAnswer(number, 200, b"")],
    "exit": lambda number: exit(1),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_failure_at_a_request_is_answered_500_and_told_with_file_and_line(wrong: str) -> None:
    bell = Bell(hear_request=WRONG[wrong], gone=fails)
    side = side_with(bell)
    answer = side.ask(request("/bell/ring", "Accept: application/json"))
    assert status_of(answer) == 500 and b"application/problem+json" in answer and b"operator" in body_of(answer)
    assert bell.left == bell.numbers, "it is told that the request has ended"
    first, gone = warnings(side)
    assert first.startswith("http.py of bell failed in hear_request (") and "test_web_service_faults.py" in first
    assert ("line" in first) is (wrong in ("raises", "exit")) and "failed in gone" in gone
    for _ in range(3):
        assert status_of(side.ask(request("/bell/ring"))) == 500
    assert len(warnings(side)) == 2
    side.tick(WARN_AGAIN_S)
    side.ask(request("/bell/ring"))
    assert len(warnings(side)) == 4
    assert status_of(side.ask(request("/other/ring"))) == 200


def test_failure_at_something_else_ends_what_waits_for_that_service_with_502() -> None:
    bell = Bell(hear=fails)
    side = side_with(bell)
    waits, flows = side.open(), side.open()
    side.say(waits, request("/bell/ring"))
    bell.does["hear_request"] = lambda number: [HttpFlow(number, "text/plain", b"one")]
    side.say(flows, request("/bell/ring"))
    side.hear(MESSAGE)
    assert status_of(side.written[waits]) == 502 and b"X-Reason: service-failed" in side.written[waits]
    assert side.written[flows].endswith(b"0\r\n\r\n")
    assert "no bell" in warnings(side)[0] and bell.left == bell.numbers
    assert status_of(side.say(waits, request("/other/ring"))) == 200, "the connection goes on"


def test_request_that_is_never_answered_ends_with_504_and_one_without_end_does_not() -> None:
    bell = Bell()
    side = side_with(bell)
    waits, flows = side.open(), side.open()
    side.say(waits, request("/bell/ring"))
    bell.does["hear_request"] = lambda number: [HttpFlow(number, "text/plain", b"one")]
    side.say(flows, request("/bell/ring"))
    side.tick(ANSWER_S - 1)
    assert waits not in side.written
    side.tick(1)
    assert status_of(side.written[waits]) == 504 and bell.left == bell.numbers[:1]
    bell.does["hear"] = lambda number: [HttpPiece(number, b"two")]
    side.hear(MESSAGE)
    assert b"two" in side.written[flows]
