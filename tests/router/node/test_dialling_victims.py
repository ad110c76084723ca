"""Advertisements that name somebody else's address: it is rarely dialled, and never through a name (R-D12, R-D22)."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio
from rigs.ports import free_port
from trio.abc import HostnameResolver
from trio.testing import MockClock

from router.core.neighbours.dial_budget import DialBudgets, DialLimits
from router.core.neighbours.directory import Neighbour
from router.core.service.refusals import Refusals
from router.core.wire.crypto import PublicKey, SigningKey
from router.node.dialler import Dialler, LastWords
from router.settings.config import Link
from router.transport.contract import Stream

TEN_MINUTES_S = 600
PATIENT = Link(dial_backoff_s_min=200, dial_backoff_s_max=200)


class AtOnce(HostnameResolver):
    """Resolves in place of a thread, since virtual time goes on while a thread runs."""

    async def getaddrinfo(self, *asked: Any) -> Any:
        return socket.getaddrinfo(*asked)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        return socket.getnameinfo(sockaddr, flags)


async def never(stream: Stream, expect: PublicKey) -> LastWords:
    raise AssertionError("nobody with that key is there")


async def always(key: bytes) -> bool:
    return True


def dialler(
    nursery: trio.Nursery, url: str, advertisements: int, *, on_loopback: bool, learned: str = "sampled"
) -> Dialler:
    keys = [number.to_bytes(32, "big") for number in range(advertisements)]
    named = [Neighbour(key, urls=(url,), learned=learned, doubted=True) for key in keys]
    budget = DialBudgets(Refusals())
    found = Dialler(
        SigningKey(b"m" * 32), named, PATIENT, nursery, never, always, lambda: 0.5, lambda: on_loopback, budget
    )
    for key in keys:
        found.want(key)
    return found


async def connections(
    url_of: str, advertisements: int, *, on_loopback: bool, learned: str = "sampled"
) -> tuple[int, set[str]]:
    """Return how often a victim was connected to in ten minutes, and the dialler's reports."""
    count = 0
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:

        async def hang_up(stream: trio.SocketStream) -> None:
            nonlocal count
            count += 1

        nursery.start_soon(trio.serve_listeners, hang_up, [listener])
        one = dialler(nursery, url_of.format(port=port), advertisements, on_loopback=on_loopback, learned=learned)
        await trio.sleep(TEN_MINUTES_S - 1)
        nursery.cancel_scope.cancel()
    return count, {text.partition(" not dialled now")[0] for text in one.problems.values()}


def run(url: str, advertisements: int, *, on_loopback: bool, learned: str = "sampled") -> tuple[int, set[str]]:
    """Run on virtual time, which jumps when nothing has happened for a moment; the victim and its port are real."""

    async def main() -> tuple[int, set[str]]:
        trio.socket.set_custom_hostname_resolver(AtOnce())
        return await connections(url, advertisements, on_loopback=on_loopback, learned=learned)

    return trio.run(main, clock=MockClock(autojump_threshold=0.02))


@pytest.mark.parametrize("url", ["tls://127.0.0.1:{port}", "ws://127.0.0.1:{port}/link"])
def test_a_thousand_advertisements_that_name_a_victim_cause_three_connections_in_ten_minutes(url: str) -> None:
    count, said = run(url, 1000, on_loopback=True)
    assert 1 <= count <= 3
    assert any("is named by an advertisement and" in text for text in said)


def test_a_hundred_datagrams_on_a_lan_that_name_a_victim_cause_three_connections_in_ten_minutes() -> None:
    count, said = run("tls://127.0.0.1:{port}", 100, on_loopback=True, learned="lan")
    assert 1 <= count <= 3
    assert any("is named by a datagram on the local network and" in text for text in said)


@pytest.mark.parametrize("url", ["tls://localhost:{port}", "wss://localhost:{port}/link"])
def test_a_name_that_leads_to_an_address_which_they_may_not_name_is_not_dialled(url: str) -> None:
    count, said = run(url, 10, on_loopback=False)
    assert count == 0
    assert all("leads back to the machine that dials it" in text for text in said) and said


def test_a_private_address_that_a_hint_of_an_app_names_is_dialled_and_what_a_name_leads_to_is_judged() -> None:
    """A literal address was judged when the hint came; one that somebody passed on is nobody's business here."""

    async def said(url: str, learned: str) -> str:
        async with trio.open_nursery() as nursery:
            one = dialler(nursery, url, 1, on_loopback=False, learned=learned)
            await trio.sleep(TEN_MINUTES_S - 1)
            nursery.cancel_scope.cancel()
        return "".join(one.problems.values())

    def told(url: str, learned: str) -> str:
        return trio.run(said, url, learned, clock=MockClock(autojump_threshold=0.02))

    assert "lies in a private network" in told("tls://10.255.255.1:1", "sampled")
    assert "lies in a private network" not in told("tls://10.255.255.1:1", "hint")
    assert "lies in a private network" not in told("ws://10.255.255.1?plain=yes", "hint")
    assert "leads back to the machine that dials it" in told("tls://localhost:1", "hint")


async def _accept(host: str, nursery: trio.Nursery, came: list[str]) -> str:
    """Take connections at a port of this machine and say nothing; return its URL."""

    async def hold(stream: trio.SocketStream) -> None:
        came.append(url)
        await trio.sleep_forever()

    [listener] = await trio.open_tcp_listeners(0, host=host)
    url = f"tls://{host}:{listener.socket.getsockname()[1]}"
    nursery.start_soon(trio.serve_listeners, hold, [listener])
    return url


def test_victims_beside_each_other_in_one_advertisement_are_dialled_within_the_budget_each() -> None:
    """They say nothing, so the next one is dialled before the last has failed; a dial that is given up counts."""

    async def dialled() -> list[int]:
        came: list[str] = []
        async with trio.open_nursery() as nursery:
            urls = tuple([await _accept("127.0.0.1", nursery, came) for _ in range(6)])
            named = [Neighbour(bytes((n,)) * 32, urls=urls, learned="sampled", doubted=True) for n in range(1, 20)]
            budgets = DialBudgets(Refusals())
            one = Dialler(
                SigningKey(b"m" * 32), named, PATIENT, nursery, never, always, lambda: 0.5, lambda: True, budgets
            )
            for neighbour in named:
                one.want(neighbour.key)
            await trio.sleep(TEN_MINUTES_S - 1)
            nursery.cancel_scope.cancel()
        return [came.count(url) for url in urls]

    counts = trio.run(dialled, clock=MockClock(autojump_threshold=0.02))
    assert all(1 <= count <= DialLimits().connections for count in counts), counts


def test_where_a_neighbour_says_that_it_is_the_configured_address_is_tried_first_and_others_are_left_alone() -> None:
    """Somebody who shows no key listens at the address that the neighbour names: it may be that neighbour, which
    starts, so it is dialled after rests of 5, 10, 15 … s for ten minutes, and once in the ten minutes after these."""

    async def dialled() -> tuple[int, int, str]:
        count = 0

        async def hang_up(stream: trio.SocketStream) -> None:
            nonlocal count
            count += 1

        trio.socket.set_custom_hostname_resolver(AtOnce())
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        said = f"tls://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, hang_up, [listener])
            hub = Neighbour(b"h" * 32, uplink=True, urls=("tls://127.0.0.1:1",), said_urls=(said,))
            link, budgets = Link(dial_backoff_s_min=20, dial_backoff_s_max=20), DialBudgets(Refusals())
            key = SigningKey(b"m" * 32)
            one = Dialler(key, [hub], link, nursery, never, always, lambda: 0.5, lambda: False, budgets)
            one.reconcile([hub])
            await trio.sleep(TEN_MINUTES_S)
            first = count
            await trio.sleep(2 * TEN_MINUTES_S)
            nursery.cancel_scope.cancel()
        return first, count, one.problems[b"h" * 32]

    first, count, problem = trio.run(dialled, clock=MockClock(autojump_threshold=0.02))
    assert 25 < first < 45 and first < count < first + 3
    configured, _, other = problem.partition("; ")
    assert "127.0.0.1:1" in configured and "is named by a neighbour and not dialled now" in other


@pytest.mark.parametrize("away_s", [8, 120, 1000])
def test_who_waits_for_a_neighbour_that_moved_dials_it_within_twenty_seconds_of_its_being_there(away_s: int) -> None:
    came_s = list[float]()

    async def play() -> None:
        async def hang_up(stream: trio.SocketStream) -> None:
            came_s.append(trio.current_time() - away_s)

        trio.socket.set_custom_hostname_resolver(AtOnce())
        port = free_port()
        said = f"tls://127.0.0.1:{port}"
        hub = Neighbour(b"h" * 32, uplink=True, urls=("tls://127.0.0.1:1",), said_urls=(said,))
        key, budgets = SigningKey(b"m" * 32), DialBudgets(Refusals())
        async with trio.open_nursery() as nursery:
            one = Dialler(key, [hub], Link(), nursery, never, always, lambda: 0.9, lambda: False, budgets)
            one.reconcile([hub])
            await trio.sleep(away_s)
            [listener] = await trio.open_tcp_listeners(port, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, hang_up, [listener])
            await trio.sleep(60)
            nursery.cancel_scope.cancel()

    trio.run(play, clock=MockClock(autojump_threshold=0.02))
    assert came_s and came_s[0] <= 20
