"""Services: a message on which one fails repeatedly is refused in the end, and the next one is handled."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
from rigs.failing_service import POISON, Failing
from rigs.router_end import RouterEnd, RouterLink, later
from rigs.serving import serving

from router.actors.actor import actor_system
from router.client.node import connect
from router.client.received import Received
from router.core.service.back_off import BackOff
from router.core.wire.admin import Answer, Inquiry
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.text import SUBJECT
from router.service import plugins
from router.service.attempts import Attempts
from router.service.contract import LogEvent
from router.service.host import EVENTS_BYTES_MAX, GATHER_S, GATHER_S_MAX, Place, Service, next_gather_s
from router.service.running import supervise
from router.settings import keyring
from router.settings.home import Home

FIRST, SECOND, THIRD = (MessageId(bytes((n,)) * 32) for n in range(3))
QUICKLY = {"node.service_restart_s_min": 0.01, "node.service_restart_s_max": 0.01}


def test_events_without_a_pause_gather_longer_each_time_unless_many_come() -> None:
    gathered = [GATHER_S]
    for _ in range(4):
        gathered.append(next_gather_s(gathered[-1], 1_000))
    assert gathered == [0.2, 0.4, 0.8, 1.0, 1.0] and gathered[-1] == GATHER_S_MAX
    assert next_gather_s(GATHER_S_MAX, EVENTS_BYTES_MAX) == GATHER_S == next_gather_s(GATHER_S, 0) / 2
    gather_s, rate = GATHER_S, 1.2 * EVENTS_BYTES_MAX
    for _ in range(9):
        gather_s = next_gather_s(gather_s, int(gather_s * rate))
        assert gather_s >= GATHER_S and gather_s * rate < 0.8 * EVENTS_BYTES_MAX
    assert gather_s * rate == pytest.approx(0.75 * EVENTS_BYTES_MAX, rel=0.01), "as full as it may be, and no fuller"


def test_attempts_are_counted_by_message_and_a_success_ends_the_count() -> None:
    attempts = Attempts(2)
    attempts.fail(FIRST)
    assert not attempts.are_used_up(FIRST)
    attempts.fail(SECOND)
    attempts.fail(FIRST)
    assert attempts.are_used_up(FIRST) and not attempts.are_used_up(SECOND)
    assert repr(attempts) == "<attempts: 2 messages failed, each at most 2 times>"
    attempts.end(SECOND)
    attempts.fail(SECOND)
    assert not attempts.are_used_up(SECOND), "a success ends the count"
    attempts.end(FIRST)
    assert attempts.are_used_up(FIRST), "the refusal may have to be said again"
    assert attempts.ended == 2


def test_so_many_failed_messages_are_remembered_and_the_oldest_gives_way() -> None:
    attempts = Attempts(1, messages_max=2)
    for one in (FIRST, SECOND, FIRST, THIRD):
        attempts.fail(one)
    assert [attempts.are_used_up(one) for one in (FIRST, SECOND, THIRD)] == [True, False, True]


async def test_a_message_on_which_it_always_fails_is_refused_and_the_next_is_handled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Failing.seen.clear()
    settings = QUICKLY | {"node.services": ["rigs.failing_service:Failing"], "node.service_attempts_max": 3}
    async with serving(tmp_path / "home", settings) as home:
        failing = keyring.load(home, "service-failing_service").public
        async with connect(home=home, outcomes=True) as app:
            poison = await app.send(failing, POISON, wait=True)
            await app.send(failing, b"and me")
            async for message in app.unicasts():
                assert message.body == b"AND ME"
                break
            [ended] = [one async for one in poison if one.state == "refused"]
            assert ended.reason == Reason.PEER_REFUSED
            report = await anext(app.reports)
            assert (report.destination, report.state, report.reason) == (failing, "refused", Reason.PEER_REFUSED)
    assert Failing.seen == [POISON, POISON, POISON, b"and me"]
    said = [
        one.getMessage() for one in caplog.records if one.levelno == logging.ERROR and one.name == "router.service.host"
    ]
    [line] = [one for one in caplog.records if one.getMessage() in said]
    assert line.__dict__[SUBJECT] == "failing_service", "which limits repeated lines of each service by itself"
    assert len(said) == 1 and "failed 3 times on message" in said[0] and "ValueError('this is poison')" in said[0]


@pytest.mark.parametrize("body", [b"exit", b"interrupt", b"exit within", b"foreign", b"generator", b"exits"])
async def test_a_service_that_would_end_the_process_fails_on_its_message_only(
    body: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Failing.seen.clear()
    settings = QUICKLY | {"node.services": ["rigs.failing_service:Failing"], "node.service_attempts_max": 2}
    async with serving(tmp_path / "home", settings) as home:
        failing = keyring.load(home, "service-failing_service").public
        async with connect(home=home, outcomes=True) as app:
            poison = await app.send(failing, body, wait=True)
            [ended] = [one async for one in poison if one.state == "refused"]
            assert ended.reason == Reason.PEER_REFUSED
            await app.send(failing, b"and me")
            async for message in app.unicasts():
                assert message.body == b"AND ME"
                break
    assert Failing.seen == [body, body, b"and me"]
    assert "it asked for the end of the process" in caplog.text


async def test_a_task_that_would_end_the_process_fails_its_service_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The task's failure counts against the message in hand."""
    Failing.seen.clear()
    settings = QUICKLY | {"node.services": ["rigs.failing_service:Failing"], "node.service_attempts_max": 2}
    async with serving(tmp_path / "home", settings) as home:
        failing = keyring.load(home, "service-failing_service").public
        async with connect(home=home, outcomes=True) as app:
            poison = await app.send(failing, b"exit in a task", wait=True)
            [ended] = [one async for one in poison if one.state == "refused"]
            assert ended.reason == Reason.PEER_REFUSED
            await app.send(failing, b"and me")
            async for message in app.unicasts():
                assert message.body == b"AND ME"
                break
    assert Failing.seen == [b"exit in a task"] * 2 + [b"and me"]
    assert "it asked for the end of the process: SystemExit(4)" in caplog.text


async def test_a_message_on_which_it_fails_does_not_make_the_next_one_wait_longer(
    nursery: trio.Nursery, autojump_clock: object, tmp_path: Path
) -> None:
    """Pauses double within the attempts on one message: 1, 2, 4 and 8 s at most, and begin again with the next."""
    end = RouterEnd()
    await nursery.start(end.run)
    Failing.seen.clear()
    key = SigningKey(b"s" * 32)
    bodies = [b"exit", b"two faults", POISON]
    wires = [seal_unicast(SigningKey(body[:1] * 32), key.public, body, ttl_s=60, expiry_min=later()) for body in bodies]
    async with actor_system():
        supervise(Failing, Place("failing", end.url, key, Home(tmp_path)), BackOff(1, 1000))
        await trio.sleep(0.1)
        began = trio.current_time()
        for wire in wires:
            end.owe(key.public, wire)
        while end.queues[key.public].wires:
            await trio.sleep(0.1)
        assert Failing.seen == [body for body in bodies for _ in range(5)]
        assert trio.current_time() - began < 3 * (1 + 2 + 4 + 8) + 5


def test_a_module_that_ends_the_program_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quitting_service.py").write_text("import sys\nsys.exit(2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(plugins.UnknownService, match=r"quitting_service of .* ends the program \(SystemExit\(2\)\); "):
        plugins.load("quitting_service")


async def test_a_refusal_that_was_lost_with_its_connection_is_said_again(
    nursery: trio.Nursery, autojump_clock: object, tmp_path: Path
) -> None:
    """The next instance sends it again, also in a process of its own: `run` and the node both call `supervise`."""
    end = RouterEnd()
    await nursery.start(end.run)
    Failing.seen.clear()
    key = SigningKey(b"s" * 32)
    poison, another = (
        seal_unicast(SigningKey(seed * 32), key.public, POISON, ttl_s=60, expiry_min=later()) for seed in (b"a", b"b")
    )
    async with actor_system():
        supervise(Failing, Place("failing", end.url, key, Home(tmp_path), attempts=Attempts(2)), BackOff(1, 1))
        await trio.sleep(0.1)
        end.owe(key.public, poison)
        await trio.sleep(0.1)
        assert Failing.seen == [POISON], "it waits to be started again"
        end.hears_settled = False
        await trio.sleep(1)
        assert Failing.seen == [POISON] * 2 and end.queues[key.public].wires, "refused, but not heard"
        end.hears_settled = True
        end.owe(key.public, another)
        await trio.sleep(2)
        assert Failing.seen == [POISON] * 4, "twice each, and one new instance between"
        assert not end.queues[key.public].wires


class Noting(Service):
    """Notes an event for each message."""

    starts = 0

    async def on_connected(self) -> None:
        Noting.starts += 1

    async def on_message(self, message: Received) -> None:
        await self.keep(LogEvent("noting_heard", message.id))


async def test_events_are_offered_again_when_the_node_is_slow_to_answer(
    nursery: trio.Nursery, autojump_clock: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service goes on meanwhile."""
    end, offered = RouterEnd(), list[str]()

    def answer_late(link: RouterLink, inquiry: Inquiry) -> None:
        offered.append(inquiry.argument)
        if len(offered) == 2:
            link.tell(Answer(b'{"noted": 0}'))  # to the first one, which was given up
            link.tell(Answer(b'{"noted": 1}'))

    monkeypatch.setattr(RouterLink, "answer", answer_late)
    await nursery.start(end.run)
    key = SigningKey(b"s" * 32)
    async with actor_system():
        place = Place("noting", end.url, key, Home(tmp_path), events=frozenset({"noting_heard"}))
        supervise(Noting, place, BackOff(1, 1))
        await trio.sleep(0.1)
        end.owe(key.public, seal_unicast(SigningKey(b"a" * 32), key.public, b"x", ttl_s=60, expiry_min=later()))
        while len(offered) < 2:
            await trio.sleep(1)
        await trio.sleep(60)
    assert Noting.starts == 1
    assert len(offered) == 2 and offered[0] == offered[1]


class Sending(Service):
    """Fails while messages of its own are under way."""

    async def on_message(self, message: Received) -> None:
        self.nursery.start_soon(self._send)
        await trio.sleep(1)
        raise ValueError("this is poison")

    async def _send(self) -> None:
        await self.node.send(self.place.key.public, b"hello")


async def test_the_first_error_is_reported_not_what_follows_from_it(
    nursery: trio.Nursery, autojump_clock: object, tmp_path: Path
) -> None:
    """Its own sending fails as well when the connection is left, and says nothing of the cause."""
    end, problems = RouterEnd(), list[str]()
    end.holding = True
    await nursery.start(end.run)
    key = SigningKey(b"s" * 32)
    async with actor_system():
        place = Place("sending", end.url, key, Home(tmp_path))
        supervise(Sending, place, BackOff(1, 1), lambda said: problems.append(said))
        await trio.sleep(0.1)
        end.owe(key.public, seal_unicast(SigningKey(b"a" * 32), key.public, b"x", ttl_s=60, expiry_min=later()))
        await trio.sleep(10)
    assert problems[0] == "ValueError('this is poison')"
