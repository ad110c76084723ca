"""Turns and places of handshakes: by prefix, in rounds, charged when they are taken."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from router.transport.handshakes import PREFIXES_MAX, Places, is_gone, prefix_of
from router.transport.limits import HandshakeLimits
from router.transport.sockets import NotLetIn

FREE = HandshakeLimits(per_s_per_prefix=0, per_s=0, timeout_s=1000)


@asynccontextmanager
async def handing_out(limits: HandshakeLimits) -> AsyncIterator[Places]:
    places = Places(limits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(places.run)
        yield places
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("127.0.0.1", "127.0.0.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3::1", "2001:db8:1::/56"),
        ("2001:db8:1:1ff::1", "2001:db8:1:100::/56"),
        ("fe80::1%eth0", "fe80::/56"),
    ],
)
def test_prefixes(address: str, prefix: str) -> None:
    assert prefix_of(address) == prefix


async def test_silent_handshakes_keep_their_prefix_out_for_a_moment_only(autojump_clock: MockClock) -> None:
    places = Places(replace(FREE, max_per_prefix=2))
    done: list[float] = []

    async def silent() -> None:
        with pytest.raises(NotLetIn, match="not done after 2 s, and others"):
            async with places.place("192.0.2.1"):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(silent)
        await wait_all_tasks_blocked()
        await trio.sleep(100)  # nobody waits: they may take as long as the caller lets them
        began = trio.current_time()
        for _ in range(3):
            async with places.place("192.0.2.9"):
                done.append(trio.current_time() - began)
        nursery.start_soon(silent)
        nursery.start_soon(silent)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        async with places.place("192.0.2.9"):
            done.append(trio.current_time() - began)
    assert done == [0, 0, 0, 2]
    assert repr(places) == "<Places with 0 handshakes>"


async def test_another_prefix_hurries_nobody(autojump_clock: MockClock) -> None:
    places = Places(replace(FREE, max_per_prefix=1))
    async with places.place("192.0.2.1"):
        async with places.place("198.51.100.1"):
            await trio.sleep(100)
        await trio.sleep(100)


async def test_users_of_this_machine_take_no_places_and_no_turns_from_each_other(autojump_clock: MockClock) -> None:
    async def came(address: str, user: str, times: int) -> float:
        began = trio.current_time()
        for _ in range(times):
            async with places.place(address, user=user):
                pass
        return trio.current_time() - began

    async with handing_out(HandshakeLimits(max_per_prefix=2, per_s_per_prefix=1, per_s=0)) as places:
        for address in ("127.0.0.1", "::1"):
            async with places.place(address, user="user 1000"), places.place(address, user="user 1000"):
                assert await came(address, "user 1001", 2) == 0 == await came(address, "", 2)
            assert await came(address, "user 1000", 1) == pytest.approx(1.0)


async def test_those_who_come_again_have_their_turn_now_and_then(autojump_clock: MockClock) -> None:
    limits = HandshakeLimits(max_per_prefix=4, per_s_per_prefix=10, per_s=0)

    async def came(address: str, times: int) -> float:
        began = trio.current_time()
        for _ in range(times):
            async with places.place(address):
                pass
        return trio.current_time() - began

    async with handing_out(limits) as places:
        assert await came("192.0.2.1", 4) == 0
        assert await came("192.0.2.2", 10) == pytest.approx(1.0)
        assert await came("198.51.100.1", 4) == 0


async def test_who_gives_up_takes_no_turn(autojump_clock: MockClock) -> None:
    async def come() -> None:
        async with places.place("192.0.2.1"):
            pass

    async with handing_out(HandshakeLimits(max_per_prefix=8, per_s_per_prefix=1, per_s=0)) as places:
        for _ in range(8):
            await come()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(come)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await come()
    assert trio.current_time() - began == pytest.approx(1.0)


async def test_a_flood_that_is_over_leaves_no_debt(autojump_clock: MockClock) -> None:
    """Waiting connections are closed one after the other, oldest first, each just before its turn."""
    scopes: list[trio.CancelScope] = []

    async def come(address: str) -> None:
        with trio.CancelScope() as scope, suppress(NotLetIn):
            scopes.append(scope)
            async with places.place(address):
                await trio.sleep_forever()

    async with handing_out(HandshakeLimits()) as places, trio.open_nursery() as nursery:
        for number in range(2000):
            nursery.start_soon(come, f"10.0.{number % 40}.1")
        await wait_all_tasks_blocked()
        for scope in list(scopes):
            scope.cancel()
            await wait_all_tasks_blocked()
        began = trio.current_time()
        async with places.place("192.0.2.1"):
            assert trio.current_time() - began <= 0.01
    assert repr(places) == "<Places with 0 handshakes>"


async def test_a_turn_that_is_handed_to_one_who_gives_up_is_given_back(autojump_clock: MockClock) -> None:
    async def come() -> None:
        with scope:
            async with places.place("192.0.2.1"):
                raise AssertionError("it went on")

    scope = trio.CancelScope()
    async with handing_out(HandshakeLimits(per_s_per_prefix=1, per_s=0.5)) as places, trio.open_nursery() as nursery:
        async with places.place("192.0.2.1"):
            pass
        nursery.start_soon(come)
        await wait_all_tasks_blocked()
        scope.cancel()
        assert places._hand_out(trio.current_time() + 2) == math.inf, "it has the turn, and does not know it yet"
        await wait_all_tasks_blocked()
        began = trio.current_time()
        async with places.place("192.0.2.1"):
            assert trio.current_time() - began == pytest.approx(2)
    assert repr(places) == "<Places with 0 handshakes>"


async def order_of_turns(places: Places, addresses: list[str]) -> list[str]:
    """Return the prefixes that got a turn, in order; connections arrive while others wait."""
    came: list[str] = []

    async def come(address: str) -> None:
        async with places.place(address):
            came.append(address)

    async with trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(come, address)
            await wait_all_tasks_blocked()
    return came


ONE_BY_ONE = HandshakeLimits(per_s_per_prefix=0, per_s=0.5, timeout_s=1000)


async def test_prefixes_have_their_turns_in_a_round(autojump_clock: MockClock) -> None:
    async with handing_out(ONE_BY_ONE) as places:
        crowd = ["192.0.2.1"] * 20
        came = await order_of_turns(places, [*crowd, "198.51.100.1", "203.0.113.1"])
    assert came.index("198.51.100.1") <= 3 and came.index("203.0.113.1") <= 4, came


async def test_every_other_turn_is_for_prefixes_in_which_a_known_key_has_proven_itself(
    autojump_clock: MockClock,
) -> None:
    async with handing_out(ONE_BY_ONE) as places:
        places.proven("203.0.113.9")
        crowd = [f"10.0.{number}.1" for number in range(30)]
        came = await order_of_turns(places, [*crowd, *["203.0.113.1"] * 3])
    first, second, third = (at for at, one in enumerate(came) if one == "203.0.113.1")
    assert first <= 3 and (second, third) == (first + 2, first + 4), "and others go on between them"


async def test_a_site_with_many_prefixes_has_a_pace_of_its_own(autojump_clock: MockClock) -> None:
    limits = HandshakeLimits(max_per_prefix=2, per_s_per_prefix=1, per_s=0, timeout_s=1000)
    async with handing_out(limits) as places:
        began = trio.current_time()
        for number in range(24):
            async with places.place(f"2001:db8:1:{number << 8:x}::1"):
                pass
        assert trio.current_time() - began == pytest.approx((24 - 4) / 2)
        async with places.place("2001:db8:2::1"):
            assert trio.current_time() - began == pytest.approx(10)


async def test_a_connection_that_its_client_has_closed_takes_no_turn(autojump_clock: MockClock) -> None:
    gone: set[int] = set()
    refused: list[str] = []

    async def come(number: int) -> None:
        try:
            async with places.place("192.0.2.1", lambda: number in gone):
                raise AssertionError("it had a turn")
        except NotLetIn as error:
            refused.append(str(error))

    limits = HandshakeLimits(max_per_prefix=8, per_s_per_prefix=0, per_s=0.25, timeout_s=1000)
    async with handing_out(limits) as places, trio.open_nursery() as nursery:
        async with places.place("192.0.2.1"):
            pass
        for number in range(20):
            nursery.start_soon(come, number)
        await wait_all_tasks_blocked()
        gone |= set(range(20))
        nursery.start_soon(come, 19)
        await wait_all_tasks_blocked()
        assert len(refused) == 1, "who is gone at once does not even wait"
        began = trio.current_time()
        async with places.place("198.51.100.1"):
            assert trio.current_time() - began == 4
    assert len(refused) == 21 and set(refused) == {"the peer closed the connection before its handshake began"}


@pytest.mark.parametrize("resets", [False, True])
async def test_a_socket_is_gone_when_its_other_end_has_closed(*, resets: bool) -> None:
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        await theirs.send(b"a hello that nobody reads")
        assert not is_gone(ours)
        if resets:
            theirs.close()
        else:
            theirs.shutdown(trio.socket.SHUT_WR)
        assert is_gone(ours)


async def test_who_waits_too_long_hears_so_and_so_does_the_operator(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    limits = HandshakeLimits(max_per_prefix=2, per_s_per_prefix=0, per_s=0.5, timeout_s=10)
    texts: list[str] = []

    async def come(number: int) -> None:
        try:
            async with places.place(f"192.0.{number % 3}.1"):
                pass
        except NotLetIn as error:
            texts.append(str(error))

    with caplog.at_level(logging.WARNING):
        async with handing_out(limits) as places, trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(come, number)
    assert set(texts) == {"its handshake did not begin within 10 s, because others waited"}
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 2, "once in ten seconds"
    assert "from 3 address prefixes, most of them from 192.0." in lines[0] and "limits.handshakes_per_s" in lines[0]


async def test_all_prefixes_together_have_a_pace(autojump_clock: MockClock) -> None:
    async with handing_out(HandshakeLimits(per_s=10)) as places:
        began = trio.current_time()
        for number in range(30):
            async with places.place(f"10.0.{number}.1"):
                pass
    assert trio.current_time() - began == pytest.approx((30 - 10 * Places.BURST_S) / 10)


async def test_prefixes_that_came_long_ago_are_forgotten() -> None:
    places = Places(FREE)
    for number in range(PREFIXES_MAX + 1):
        async with places.place(f"10.{number >> 8}.{number & 255}.1"):
            pass
    assert len(places._prefixes) == PREFIXES_MAX
