"""One bad thing at a service stops only itself: a stream, a question, a deed; an honest user beside it goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.own_services import ask, one_service, status, until

from router.client.node import Node
from router.core.wire.reasons import Reason
from router.service.running import key_of
from router.settings.home import Home

RULES = """
from router.core.wire.reasons import Reason
from router.service import contract as c

CLOSED = Reason.declare(791, "desk:closed", "The desk is closed.")


def work(argument):
    return argument.upper()


class Poison(Exception):
    def __repr__(self):
        raise ValueError("no words")


class Desk:
    def __init__(self, setup):
        self.batch, self.kept, self.has_ticked = [], setup.kept, False

    def doors(self):
        return {"front": "unix:front.sock", "back": "unix:back.sock", "rung": "", "shut": "unix:shut.sock"}

    def hear(self, heard, now):
        match heard:
            case c.Opened("shut"):
                raise Poison
            case c.Came(door, peer, data):
                return self.at_door(door, peer, data.decode().strip(), now)
            case c.Tick() if self.has_ticked:
                return []
            case c.ConnectionFailed() | c.Tick() | c.Sent(tag="poison"):
                self.has_ticked = isinstance(heard, c.Tick)
                raise Poison
            case c.Computed(tag, result, error):
                return [c.Write("front", tag, error.encode())] if error else 1 / 0
            case c.Sent(tag, _, refused, text):
                return [c.Write("front", tag, f"{refused and refused.word}: {text}".encode())]
            case c.Asked(number, "fail"):
                return {}["no such key"]
            case c.Asked(number, "twice"):
                return [c.Answer(number, 1), c.Answer(number, 2)]
            case c.Asked(number, "last"):
                return [c.Answer(number, self.kept.get(b"last", b"").decode())]
            case c.Asked(number, word):
                return [c.Answer(number, word)]
            case c.Message(body=b"at once"):
                return {}["no such message"]
            case c.Message(body=b"closed"):
                return [c.Refuse("desk:closed")]
            case c.Message(body=body):
                self.batch.append((heard.source, body))
                return [c.Put(b"last", body)]
        return []

    def settled(self, now):
        batch, self.batch = self.batch, []
        return [c.Send(source, {b"hello": b"HELLO"}[body]) for source, body in batch]

    def at_door(self, door, peer, word, now):
        match word:
            case "fail":
                return 1 / 0
            case "publish":
                return [c.Publish(b"x", "nobody's", tag=peer), c.Write(door, peer, b"published? ")]
            case "nowhere":
                return [c.Write("dusk", peer, b"x")]
            case "join":
                return [c.Join("nobody's"), c.Write(door, peer, b"goes on")]
            case "port":
                return [c.Connect("out", "tcp://127.0.0.1:99999", "a tag"), c.Write(door, peer, b"goes on")]
            case "job":
                return [c.Compute("desk:work", b"x", peer)]
            case "dial":
                return [c.Connect("out", "tcp://127.0.0.1:1", "poison"), c.Write(door, peer, b"dialled")]
            case "sent":
                return [c.Publish(b"x", "nobody's", tag="poison"), c.Write(door, peer, b"sent")]
            case "tick":
                return [c.Wake(now.wall_s), c.Write(door, peer, b"wakes")]
            case "unsettled":
                self.batch.append((None, b"poison"))
                return []
            case "exit":
                raise SystemExit(3)
            case "noname":
                raise Poison
            case "compute":
                return [c.Compute("no colon", b"", "a tag"), c.Write(door, peer, b"goes on")]
            case "":
                return []
        return [c.Write(door, peer, word.upper().encode())]
"""


@asynccontextmanager
async def desk(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Home, Node]]:
    async with one_service(path, monkeypatch, "desk", RULES, run="apart") as (home, node):
        while not (home.path / "shut.sock").exists():  # the last one
            await trio.sleep(0.02)
        yield home, node


async def talk(stream: trio.SocketStream, word: str) -> str:
    await stream.send_all(f"{word}\n".encode())
    return (await stream.receive_some(1000)).decode()


async def at(home: Home, door: str) -> trio.SocketStream:
    while True:
        with suppress(ConnectionRefusedError):  # the socket is there a moment before it is listened at
            return await trio.open_unix_socket(str(home.path / f"{door}.sock"))
        await trio.sleep(0.02)


def has_problem(text: str, services: dict[str, dict[str, Any]]) -> bool:
    return text in services["desk"]["problem"]


async def starts_and_problem(home: Home) -> tuple[int, str]:
    row = (await status(home))["desk"]
    return row["starts"], row["problem"]


async def test_what_fails_at_a_door_ends_one_stream_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, _), await at(home, "front") as honest:
        assert await talk(honest, "hello") == "HELLO"
        async with await at(home, "front") as other:
            assert await talk(other, "fail") == "", "its stream is closed"
        found = await until(home, lambda services: bool(services["desk"]["problem"]))
        said = found["desk"]["problem"]
        assert 'failed on what came at its door "front"; a stream is closed for it, all others go on' in said, said
        assert "ZeroDivisionError" in said
        async with await at(home, "back") as other:
            assert await talk(other, "nowhere") == ""
        named = (
            'it returned Write with a wrong door: it has no door "dusk"; its doors are "front", "back", "rung", "shut"'
        )
        found = await until(home, lambda services: named in services["desk"]["problem"])
        for word in ("join", "port", "compute"):
            assert await talk(honest, word) == "goes on", word
        assert await talk(honest, "once more") == "ONCE MORE"
        assert (await starts_and_problem(home))[0] == 1


async def test_a_publish_to_an_unknown_group_is_refused_and_nobody_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, _), await at(home, "front") as honest:
        said = await talk(honest, "publish")
        while "nobody's" not in said:
            said += (await honest.receive_some(1000)).decode()
        assert said.startswith("published? no-route: ")
        assert (await starts_and_problem(home))[0] == 1


async def test_a_question_on_which_it_fails_is_answered_with_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, node), await at(home, "front") as honest:
        assert await ask(node, "desk fail") == {"error": "the service failed on this question: KeyError('no such key')"}
        assert "question 2 was answered already" in (await ask(node, "desk twice"))["error"]
        assert await ask(node, "desk well") == "well"
        assert await talk(honest, "hello") == "HELLO"
        said = 'it failed on the question "fail", and goes on: KeyError('
        found = await until(home, lambda services: services["desk"]["problem"].startswith(said))
        assert found["desk"]["starts"] == 1


async def test_a_message_whose_outcome_fails_later_is_refused_in_the_end_and_its_neighbours_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`settled` fails on what several messages have led to; each is then tried by itself."""
    async with desk(tmp_path, monkeypatch) as (home, node):
        address = key_of(home, "desk").public
        sent = [await node.send(address, body, wait=True) for body in (b"hello", b"hello", b"poison")]
        states = [[one async for one in each][-1] for each in sent]
        assert [one.state for one in states] == ["delivered", "delivered", "refused"]
        assert states[2].reason == Reason.PEER_REFUSED
        assert [(await anext(node.unicasts())).body for _ in range(2)] == [b"HELLO"] * 2
        found = await until(home, lambda services: "it is refused" in services["desk"]["problem"])
        assert await ask(node, "desk last") == "hello", "nothing of it is kept"
        said = found["desk"]["problem"]
        assert "failed 5 times on message" in said and "KeyError(b'poison')" in said, said


async def test_a_message_is_refused_by_the_word_of_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(tmp_path, monkeypatch) as (home, node):
        outcomes = await node.send(key_of(home, "desk").public, b"closed", wait=True)
        assert [one.reason async for one in outcomes][-1] == 791
        assert (await starts_and_problem(home)) == (1, "")


async def test_a_failure_on_a_job_a_dial_an_outcome_or_a_tick_cuts_nobody_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, _), await at(home, "front") as honest:
        assert await talk(honest, "hello") == "HELLO"
        async with await at(home, "front") as other:
            assert "the service failed on its result: ZeroDivisionError" in await talk(other, "job")
            for word, event in (("dial", "ConnectionFailed"), ("sent", "Sent"), ("tick", "Tick")):
                assert await talk(other, word)
                named = f"it failed on {event}"
                found = await until(home, partial(has_problem, named))
                assert "Poison, whose text cannot be made (ValueError)" in found["desk"]["problem"]
        for word in ("exit", "noname"):
            async with await at(home, "front") as other:
                assert await talk(other, word) == "", "its stream is closed"
        assert await talk(honest, "once more") == "ONCE MORE"
        assert (await starts_and_problem(home))[0] == 1


async def test_a_stream_whose_outcome_fails_later_is_closed_and_no_other_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else may wait to be heard: `settled` would fail on several events, and each might be to blame."""
    async with desk(tmp_path, monkeypatch) as (home, _), await at(home, "front") as honest:
        assert await talk(honest, "hello") == "HELLO"
        async with await at(home, "front") as other:
            assert await talk(other, "unsettled") == "", "its stream is closed"
        assert await talk(honest, "once more") == "ONCE MORE"
        assert (await starts_and_problem(home))[0] == 1


async def test_a_message_on_which_it_fails_at_once_is_refused_in_the_end_and_cuts_nobody_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, node), await at(home, "front") as honest:
        assert await talk(honest, "hello") == "HELLO"
        address = key_of(home, "desk").public
        sent = [await node.send(address, body, wait=True) for body in (b"at once", b"hello")]
        states = [[one async for one in each][-1] for each in sent]
        assert [one.state for one in states] == ["refused", "delivered"]
        assert states[0].reason == Reason.PEER_REFUSED
        assert await talk(honest, "once more") == "ONCE MORE"
        found = await until(home, partial(has_problem, "failed 5 times on message"))
        assert found["desk"]["starts"] == 1


async def test_nothing_is_heard_of_a_stream_on_whose_beginning_the_rules_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, _), await at(home, "front") as honest:
        for _ in range(20):
            async with await at(home, "shut") as barred:
                with suppress(trio.BrokenResourceError):  # it is closed before that is said
                    assert await talk(barred, "hello") == ""
        assert await talk(honest, "hello") == "HELLO"
