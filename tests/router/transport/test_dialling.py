"""Staggered dials on a mock clock: what begins when, who wins, and that no loser stays open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from router.core.wire.reasons import Reason
from router.transport.contract import ConnectFailed, Stream
from router.transport.dialling import AT_ONCE_MAX, OF_URL_MAX, STAGGER_S, Answer, Approach, DialTarget
from transports.memory import MemoryStream, stream_pair

MUTE_S = 10.0


@dataclass
class Network:
    """Addresses and their ways: `answers_s` of those that answer, and when; `fails_s` of those that fail; any other is
    mute. `names`: the addresses of names, and how long they take to be found."""

    answers_s: dict[str, float] = field(default_factory=dict)
    fails_s: dict[str, float] = field(default_factory=dict)
    names: dict[str, tuple[float, Sequence[str]]] = field(default_factory=dict)
    begun: list[tuple[float, str]] = field(default_factory=list)
    under_way: int = 0
    most: int = 0
    opened: list[MemoryStream] = field(default_factory=list)

    async def resolve(self, url: str) -> Sequence[str]:
        took_s, found = self.names.get(url, (0.0, (url,)))
        await trio.sleep(took_s)
        return found

    async def attempt(self, one: DialTarget) -> Stream:
        self.begun.append((round(trio.current_time(), 3), one.address))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if one.address in self.answers_s:
                await trio.sleep(self.answers_s[one.address])
                ours, theirs = stream_pair(one.address)
                self.opened.append(theirs)
                return ours
            await trio.sleep(self.fails_s.get(one.address, MUTE_S))
            raise ConnectFailed(Reason.CONNECT_FAILED, f"{one.address} failed")
        finally:
            self.under_way -= 1

    async def dial(self, *urls: str, approach: Approach | None = None) -> Answer:
        return await (approach or Approach()).dial(urls, self.resolve, self.attempt)

    async def still_open(self) -> list[str]:
        """Return the addresses whose connections are not closed at the dialling end."""
        open = []
        for stream in self.opened:
            with trio.move_on_after(0.001) as patience:
                with pytest.raises(Exception, match=r"cut|closed"):
                    await stream.receive_some(1)
            if patience.cancelled_caught:
                open.append(stream.where)
        return open


async def test_dial_does_not_wait_for_a_mute_first_address(autojump_clock: MockClock) -> None:
    network = Network(answers_s={"b": 0.1})
    answer = await network.dial("a", "b")
    assert answer.stream.where == "b" and network.begun == [(0.0, "a"), (STAGGER_S, "b")]
    assert trio.current_time() == pytest.approx(STAGGER_S + 0.1)
    assert network.under_way == 0, "the mute one was given up at once"


async def test_dial_goes_on_at_once_when_an_address_fails(autojump_clock: MockClock) -> None:
    network = Network(fails_s={"a": 0.05, "b": 0.01}, answers_s={"c": 0.0})
    answer = await network.dial("a", "b", "c")
    assert network.begun == [(0.0, "a"), (0.05, "b"), (0.06, "c")]
    assert [one.text for one in answer.problems] == ["a failed", "b failed"]


async def test_first_address_wins_if_it_is_only_slow(autojump_clock: MockClock) -> None:
    network = Network(answers_s={"a": 0.3, "b": 5.0})
    answer = await network.dial("a", "b")
    assert answer.stream.where == "a" and len(network.opened) == 1 and not answer.problems


async def test_loser_that_answers_in_the_same_moment_is_closed(autojump_clock: MockClock) -> None:
    network = Network(answers_s={"a": STAGGER_S + 0.1, "b": 0.1})
    answer = await network.dial("a", "b")
    assert len(network.opened) == 2 and await network.still_open() == [answer.stream.where]


async def test_dial_that_is_cancelled_leaves_nothing_open(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    network = Network(answers_s={"a": 0.5})
    with trio.move_on_after(0.5):
        await network.dial("a", "b")
    await wait_all_tasks_blocked()
    assert network.under_way == 0 and await network.still_open() == []


async def test_only_a_few_addresses_are_dialled_at_once(autojump_clock: MockClock) -> None:
    network = Network()
    urls = [f"mute-{number}" for number in range(3 * AT_ONCE_MAX)]
    with pytest.raises(ConnectFailed) as failed:
        await network.dial(*urls)
    assert network.most == AT_ONCE_MAX and [one for _, one in network.begun] == urls
    assert failed.value.text == "; ".join(f"{one} failed" for one in urls)


async def test_address_that_answered_last_is_dialled_first(autojump_clock: MockClock) -> None:
    network, approach = Network(answers_s={"b": 0.1}), Approach()
    await network.dial("a", "b", "c", approach=approach)
    network.begun.clear()
    await network.dial("a", "b", "c", approach=approach)
    assert [one for _, one in network.begun] == ["b"] and repr(approach) == "<approach: b>"


async def test_address_of_a_name_that_answered_last_is_dialled_first(autojump_clock: MockClock) -> None:
    network, approach = Network(answers_s={"two": 0.1}, names={"name": (0.05, ("one", "two"))}), Approach()
    await network.dial("a", "name", approach=approach)
    assert [one for _, one in network.begun] == ["a", "one", "two"]
    network.begun.clear()
    await network.dial("a", "name", approach=approach)
    assert [one for _, one in network.begun] == ["two"]


async def test_name_that_is_not_found_for_long_holds_up_no_address(autojump_clock: MockClock) -> None:
    network = Network(answers_s={"b": 0.1}, names={"name": (20.0, ("one",))})
    answer = await network.dial("name", "b")
    assert answer.stream.where == "b" and trio.current_time() == pytest.approx(STAGGER_S + 0.1)


async def test_all_that_failed_is_told(autojump_clock: MockClock) -> None:
    network = Network(fails_s={"a": 0.0, "one": 0.1, "two": 0.0}, names={"name": (0.0, ("one", "two"))})
    with pytest.raises(ConnectFailed, match=r"^a failed; one failed; two failed$"):
        await network.dial("a", "name")
    with pytest.raises(ConnectFailed, match="no address is known"):
        await network.dial()


async def test_dial_of_a_name_with_very_many_addresses_tries_few_and_the_known_one_first(
    autojump_clock: MockClock,
) -> None:
    many, approach = [f"a{n}" for n in range(5_000)], Approach()
    network = Network(names={"name": (0.0, many[4_000:4_001])}, answers_s={"a4000": 0.0})
    assert (await network.dial("name", approach=approach)).stream.where == "a4000"
    network = Network(names={"name": (0.0, many)}, fails_s=dict.fromkeys(many, 0.0))
    with pytest.raises(ConnectFailed):
        await network.dial("name", approach=approach)
    assert [address for _, address in network.begun] == ["a4000", *many[: OF_URL_MAX - 1]]
