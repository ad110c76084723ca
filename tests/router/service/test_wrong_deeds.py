"""Deeds that cannot be carried out: the rules fail on them, and none enters the state or blocks it."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import pytest
import trio
from guestbook.rules import COUNT, PAGE, Guestbook
from guestbook.settings import Settings
from rigs.own_services import ask, block, findable, made, running, until
from rigs.patience import HANG_S

from router.client.node import Node, connect
from router.core.wire.admin import VALUE_BYTES_MAX
from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason
from router.disk.state.service_state import Batch, State
from router.service import contract as c
from router.service.deed_checks import answer_of
from router.service.running import key_of
from router.settings.home import Home

RULES = """
from router.service.contract import Answer, Asked, Put, Message, LogEvent, Refuse, Send, Started

class Golf:
    def __init__(self, setup):
        self.kept, self.waits = setup.kept, 0

    def hear(self, heard, now):
        match heard:
            case Message(body=b"answer" | b"right") if not self.waits:
                return []
            case Message(body=b"putt"):
                return [Put(b"putt", b"1"), LogEvent("golf_put", heard.id), Send(heard.source, b"putt")]
            case Message(body=b"long"):
                return [LogEvent("golf_hit", heard.id, fields={"far": "x" * 20_000})]
            case Message(body=b"float"):
                return [LogEvent("golf_hit", heard.id, fields={"far": 1.5})]
            case Message(body=b"count"):
                return [Put(b"putt", b"1"), Put(b"count", 17)]
            case Asked(number, "later"):
                self.waits = number
                return []
            case Message(body=b"answer"):
                return [Answer(self.waits, "wrong"), Put(b"putt", 17)]
            case Message(body=b"right"):
                return [Answer(self.waits, "right")]
            case Message(body=b"word"):
                return [Put(b"putt", b"1"), Refuse("golf:rain")]
            case Message(body=b"one"):
                return Send(heard.source, b"one")
            case Message(body=b"key"):
                return [Put(b"putt", b"1"), Send("nobody", b"")]
            case Message():
                return [LogEvent("golf_hit", heard.id, fields={"far": "ä" * 8_000}), Send(heard.source, b"hit")]
            case Asked(number, "kept"):
                return [Answer(number, {"putt": b"putt" in self.kept})]
            case Asked(number, word):
                return [Answer(number, "x" * int(word))]
        return []
"""


@pytest.fixture
def golf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the folder of a service."""
    folder = findable(tmp_path, monkeypatch) / "golf"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "rules.py").write_text(RULES)
    (folder / "events.py").write_text('EVENTS = {"golf_hit": "The ball was hit."}')
    return folder


def playing(path: Path) -> AbstractAsyncContextManager[tuple[Home, Node]]:
    return running(path, block("golf", "golf"))


async def is_noted(home: Home, node: Node, id: bytes) -> None:
    """Wait until the node's log has an event about the message."""
    while True:
        async with connect(home=home) as one:
            if json.loads(await one.ask("why", id.hex(), timeout_s=HANG_S))["noted"]:
                return
        await trio.sleep(0.02)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"putt", 'it noted the event "golf_put", which its events.py does not declare: it declares golf_hit'),
        (b"long", "where 16384 are the limit"),
        (b"float", "in a form that the log does not take: Expected"),
        (b"key", "it returned Send with a wrong to: expected PublicKey, got str"),
        (b"count", "it returned Put with a wrong value: expected bytes | null, got int"),
        (b"word", 'it returned Refuse with a wrong reason: no reason has the word "golf:rain"; declare it'),
        (b"one", "it returned Send where a list of deeds belongs; write it in brackets"),
    ],
)
async def test_rules_fail_on_a_deed_that_cannot_be_and_the_next_message_is_handled(
    golf: Path, tmp_path: Path, body: bytes, said: str
) -> None:
    async with playing(tmp_path) as (home, node):
        wrong = await node.send(key_of(home, "golf").public, body, wait=True)
        right = await node.send(key_of(home, "golf").public, b"hit")
        [ended] = [one async for one in wrong if one.state == "refused"]
        assert ended.reason == Reason.PEER_REFUSED
        assert (await anext(node.unicasts())).body == b"hit"
        await is_noted(home, node, right)
        found = await until(home, lambda services: services["golf"]["state"] == "running")
        assert said in found["golf"]["problem"] and "failed 5 times on message" in found["golf"]["problem"]
        assert await ask(node, "golf kept") == {"putt": False}, "nothing of what was decided together with it is kept"


async def test_an_event_that_a_state_already_holds_does_not_hold_up_the_next(
    golf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(tmp_path)
    state = State(tmp_path / "home" / "services" / "golf")
    events = [{"event": "golf_hit", "fields": {"far": 1}}, {"event": "golf_put", "fields": {"far": 2}}]
    state.commit(Batch(events=[*events, events[1], events[0]]), 0)
    state.close()
    async with playing(tmp_path) as (home, node):
        right = await node.send(key_of(home, "golf").public, b"hit")
        await is_noted(home, node, right)
        found = await until(home, lambda services: services["golf"]["state"] == "running")
        assert 'kept 2 events that the node\'s log does not take: the event "golf_put"' in found["golf"]["problem"]
    assert caplog.text.count('not in the node\'s log: {"event":"golf_put","fields":{"far":2}}') == 2
    assert not State(tmp_path / "home" / "services" / "golf").events_waiting


async def test_an_answer_beyond_the_limit_is_an_error_that_names_it(golf: Path, tmp_path: Path) -> None:
    async with playing(tmp_path) as (home, node):
        most = VALUE_BYTES_MAX - 2
        assert len(await ask(node, f"golf {most}")) == most
        told = await ask(node, f"golf {most + 1}")
        said = f"the service answered with {VALUE_BYTES_MAX + 1} bytes, where {VALUE_BYTES_MAX} are the limit"
        assert told["error"].startswith(said)
        found = await until(home, lambda services: bool(services["golf"]["problem"]))
        assert said in found["golf"]["problem"]


def test_the_guestbook_lists_its_pages_in_answers_that_fit() -> None:
    kept = {PAGE + b"%08d" % page: b"ab" * 32 + b" " + b"\x01" * 10_000 for page in range(1, 31)}
    book = Guestbook(c.Setup("guestbook", SigningKey(b"g" * 32).public, Settings(), {**kept, COUNT: b"30"}, Random(1)))
    first, listed = 1, []
    while first:
        [answer] = book.hear(c.Asked(1, "pages", str(first)), c.Now(0, 0))
        assert isinstance(answer, c.Answer) and answer_of(answer) is answer
        listed += [one["page"] for one in answer.value["pages"]]
        first = answer.value["next"]
    assert listed == list(range(1, 31))


async def test_a_question_whose_answer_was_not_given_may_be_answered_by_the_next_message(
    tmp_path: Path, golf: Path
) -> None:
    async with playing(tmp_path) as (home, node):

        async def fate(body: bytes) -> str:
            sent = await node.send(key_of(home, "golf").public, body, wait=True)
            [outcome] = await sent.final(HANG_S)
            return outcome.state

        async def asks() -> None:
            assert await ask(node, "golf later") == "right"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks)
            while await fate(b"answer") != "refused":  # delivered: the question has not come yet
                pass
            assert await fate(b"right") == "delivered"
