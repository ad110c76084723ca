"""Dialling where another key answers than the one that is known: it may have followed that one, and show it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import trio
from rigs.patience import HANG_S
from test_dialler import NOBODY_THERE, NOTHING_WRONG, OTHER, THERE, House

from router.core.neighbours.directory import Neighbour
from router.core.wire.crypto import PublicKey, SigningKey
from router.node.dialler import Dialler, LastWords
from router.node.successor_dials import TRIES_MAX, SuccessorDials
from router.transport import contract as transport
from router.transport.contract import Stream, StreamBroken

AGAIN_SOON_S = 0.01, 0.05
"""The shortest and the longest pause between dials that a test waits for on the machine's own clock."""


async def test_where_another_key_answers_it_is_dialled_as_itself_once_all_addresses_have_failed(
    nursery: trio.Nursery,
) -> None:
    """It may have followed the one that is configured, and show that; else the first cause stays what is wrong."""
    peers: list[PublicKey | None] = []

    class Seen(House):
        async def _run(self, stream: Stream, expect: PublicKey) -> LastWords:
            peers.append(stream.peer)
            return await super()._run(stream, expect)

    async def ends(stream: Stream) -> None:
        with suppress(StreamBroken):
            await stream.receive_some(1)

    tls = transport.load("tls")
    url = await nursery.start(partial(tls.listen, "tls://127.0.0.1:0", THERE, ends))
    house = Seen(nursery, last_words=LastWords(is_other=True))
    one = Neighbour(bytes(OTHER.public), "there", urls=(str(url), NOBODY_THERE), uplink=True)
    dialler = house.dialler(one)
    dialler.reconcile([one])
    with trio.fail_after(HANG_S):
        while not house.failed:
            await trio.sleep(0.01)
    assert peers[0] == THERE.public and house.connected[0][1] == OTHER.public
    assert "was dialled, but key" in house.failed[0][1] and house.failed[0][2]
    assert dialler.problems[one.key] == house.failed[0][1]
    nursery.cancel_scope.cancel()


def soon(dialler: Dialler) -> Dialler:
    """Let a dialler wait only so long before it dials a successor again."""
    dialler._successors = SuccessorDials(again_s=AGAIN_SOON_S[0])
    return dialler


async def connected_to(
    nursery: trio.Nursery, urls: tuple[str, ...], said_urls: tuple[str, ...], count: int, words: LastWords
) -> list[PublicKey | None]:
    """Return the keys at the other ends of the first connections to a neighbour with the key `OTHER`."""
    peers: list[PublicKey | None] = []

    class Seen(House):
        async def _run(self, stream: Stream, expect: PublicKey) -> LastWords:
            await super()._run(stream, expect)
            peers.append(stream.peer)  # it is closed by now
            return words if stream.peer != expect else NOTHING_WRONG

    one = Neighbour(bytes(OTHER.public), "there", urls=urls, said_urls=said_urls, uplink=True)
    soon(Seen(nursery, back_off_s=AGAIN_SOON_S).dialler(one, jitter=0.0)).reconcile([one])
    with trio.fail_after(HANG_S):
        while len(peers) < count:
            await trio.sleep(0.01)
    return peers[:count]


async def listening_at(nursery: trio.Nursery, key: SigningKey) -> str:
    async def ends(stream: Stream) -> None:
        with suppress(StreamBroken):
            await stream.receive_some(1)

    return str(await nursery.start(partial(transport.load("tls").listen, "tls://127.0.0.1:0", key, ends)))


async def test_who_has_moved_and_then_got_another_key_is_found_at_the_place_that_it_said(nursery: trio.Nursery) -> None:
    url = await listening_at(nursery, THERE)
    assert await connected_to(nursery, (NOBODY_THERE,), (url,), 1, NOTHING_WRONG) == [THERE.public]
    nursery.cancel_scope.cancel()


async def test_a_configured_address_leads_to_a_successor_before_what_the_old_key_has_said_is_dialled(
    nursery: trio.Nursery,
) -> None:
    """Whoever has stolen the old key could say where it is, and keep those who know only that key for good."""
    here, thief = await listening_at(nursery, THERE), await listening_at(nursery, OTHER)
    assert await connected_to(nursery, (here,), (thief,), 1, NOTHING_WRONG) == [THERE.public]
    nursery.cancel_scope.cancel()


async def test_where_somebody_else_has_the_configured_address_the_neighbour_is_found_at_the_one_that_it_said(
    nursery: trio.Nursery,
) -> None:
    here, moved = await listening_at(nursery, THERE), await listening_at(nursery, OTHER)
    found = await connected_to(nursery, (here,), (moved,), 3, LastWords(is_other=True))
    assert found == [THERE.public, OTHER.public, OTHER.public]
    nursery.cancel_scope.cancel()


async def test_a_successor_whose_connection_ended_before_its_hello_is_dialled_again_where_the_old_key_rests(
    nursery: trio.Nursery,
) -> None:
    """Its router was just starting with the new key. The address rests for ten minutes for who expects the old one."""
    url = await listening_at(nursery, THERE)
    found = await connected_to(nursery, (NOBODY_THERE,), (url,), TRIES_MAX, LastWords("it ended"))
    assert found == [THERE.public] * TRIES_MAX
    nursery.cancel_scope.cancel()


async def test_a_key_that_never_says_hello_is_dialled_a_few_times_only(nursery: trio.Nursery) -> None:
    """The address that a neighbour named may be a victim's."""
    peers: list[PublicKey | None] = []

    class Seen(House):
        async def _run(self, stream: Stream, expect: PublicKey) -> LastWords:
            peers.append(stream.peer)
            return await super()._run(stream, expect)

    url = await listening_at(nursery, THERE)
    one = Neighbour(bytes(OTHER.public), "there", urls=(NOBODY_THERE,), said_urls=(url,), uplink=True)
    house = Seen(nursery, last_words=LastWords("it ended"), back_off_s=AGAIN_SOON_S)
    dialler = soon(house.dialler(one, jitter=0.0))
    dialler.reconcile([one])
    with trio.fail_after(HANG_S):
        while dialler._successors.may_succeed(one.key, THERE.public, trio.current_time()):
            await trio.sleep(0.01)
        since = len(house.failed)
        while len(house.failed) < since + 3:
            await trio.sleep(0.01)
    assert peers == [THERE.public] * TRIES_MAX
    nursery.cancel_scope.cancel()
