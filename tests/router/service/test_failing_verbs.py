"""A service whose verb is wrong reads at once in `router status` which verb of which file it is, and goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
from rigs.own_services import one_service, until

from router.client.errors import NodeUnavailable
from router.core.wire.heard import Heard
from router.service.host import SaidError
from router.service.requests import Requests
from router.service.running import key_of
from router.service.verbs.verb import Request

RULES = """
from typing import ClassVar
from router.service.contract import Message
from router.service.verbs.verb import Request

class Lost(Request, frozen=True):
    WORD: ClassVar[str] = "lost"

class LostLater(Request, frozen=True):
    WORD: ClassVar[str] = "lost-later"
    ANSWERED_LATER: ClassVar[bool] = True

class Losing:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        match heard:
            case Message(body=b"now"):
                return [Lost()]
            case Message(body=b"later"):
                return [LostLater()]
        return []
"""


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_a_verb_without_a_part_is_refused_at_once_and_status_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    async with one_service(tmp_path, monkeypatch, "losing", RULES, run=run) as (home, node):
        for body, verb in ((b"later", "LostLater"), (b"now", "Lost")):
            await node.send(key_of(home, "losing").public, body)
            said = f"returned {verb}, which was not done; all else was: "
            found = await until(home, lambda services, said=said: said in services["losing"]["problem"])  # type: ignore[misc]
            assert "has no part: none in router/core/control/" in found["losing"]["problem"]
            assert found["losing"]["state"] == "running"


class Odd(Request, frozen=True):
    """A verb whose `answered` fails."""

    WORD: ClassVar[str] = "odd"

    def answered(self, answer: Mapping[str, Any]) -> Sequence[Heard]:
        raise LookupError(f"the answer is {dict(answer)}")


class Plain(Request, frozen=True):
    """A verb of which the rules hear nothing."""

    WORD: ClassVar[str] = "plain"


class Answered:
    """The host of a service whose router gives this answer."""

    def __init__(self, nursery: trio.Nursery, answer: dict[str, Any] | Exception) -> None:
        self.nursery = nursery
        self.answer = answer

    async def begin_asking(self, request: Request) -> Callable[[], Awaitable[dict[str, Any]]]:
        return self.ended

    async def ended(self) -> dict[str, Any]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("request_", "answer", "said"),
    [
        (Odd(), {"x": 1}, ["Odd: the answer is {'x': 1}"]),
        (Odd(), SaidError("no"), ["Odd: the answer is {'error': 'no'}", "Odd: no"]),
        (Plain(), SaidError("no"), ["Plain: no"]),
        (Plain(), {"x": 1}, []),
    ],
)
async def test_a_request_that_fails_is_told_and_ends_no_other(
    request_: Request, answer: dict[str, Any] | Exception, said: list[str]
) -> None:
    told = list[str]()
    async with trio.open_nursery() as nursery:
        host: Any = Answered(nursery, answer)
        requests = Requests(
            host, lambda heard: None, lambda deed, error: told.append(f"{type(deed).__name__}: {error}")
        )
        await requests.do(request_)
    assert told == said


async def test_a_lost_connection_is_no_fault_of_a_request() -> None:
    told, lines = list[str](), list[str]()
    async with trio.open_nursery() as nursery:
        host: Any = Answered(nursery, NodeUnavailable("gone"))
        host.log = type("Log", (), {"log": lambda self, level, text, *args: lines.append(text % args)})()
        requests = Requests(host, lambda heard: None, lambda deed, error: told.append(str(error)))
        await requests.do(Plain())
    assert not told and len(lines) == 1 and "Plain was not done: gone" in lines[0]
