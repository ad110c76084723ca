"""An address says that it opens nothing that is sealed and then has a prekey, or somebody on the way says it for it."""

from __future__ import annotations

import pytest
import trio
from rigs.router_end import RouterEnd, later
from samples.apps import sign_on
from test_sealed_unicasts import BOB, SECRET, bodies, owe
from trio.testing import wait_all_tasks_blocked

from router.core.wire.crypto import SigningKey
from router.core.wire.message import seal_unicast
from router.core.wire.prekey import make_prekey
from router.core.wire.prekey_exchange import ASK, encode_answer
from router.core.wire.reasons import Reason
from router.core.wire.unicast_seal import BEGINS


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


async def test_a_null_that_somebody_on_the_way_makes_changes_or_kept_opens_nothing_to_it(end: RouterEnd) -> None:
    null, mallory = encode_answer(None), SigningKey(b"m" * 32)
    async with sign_on(end) as alice, trio.open_nursery() as sending:
        sending.start_soon(alice.send, BOB.public, SECRET)
        await wait_all_tasks_blocked()
        owe(end, alice, null, mallory)
        as_bob = bytearray(seal_unicast(mallory, alice.key, null, ttl_s=60, expiry_min=later()))
        at = as_bob.index(bytes(mallory.public))
        as_bob[at : at + 32] = bytes(BOB.public)
        end.owe(alice.key, bytes(as_bob))
        await wait_all_tasks_blocked()
        assert not [body for body in bodies(end) if body != ASK], "it waits"
        owe(end, alice, encode_answer(make_prekey(BOB, b"x" * 32, later() + 1440)))
        await wait_all_tasks_blocked()
        owe(end, alice, null)  # Bob has signed it once
        await wait_all_tasks_blocked()
        await alice.send(BOB.public, SECRET)
        assert [reason for _, reason in end.refusals] == [Reason.PEER_REFUSED] * 3
        made, changed, kept = alice.problems.unread()
        assert "nobody asked this address for it" in made and "its signature does not fit" in changed
        assert "asks for messages in the open while a prekey of it is valid" in kept
    assert [body[: len(BEGINS)] for body in bodies(end)] == [ASK[: len(BEGINS)], BEGINS, BEGINS]


async def test_who_said_null_and_then_has_a_prekey_is_sealed_to_from_then_on(end: RouterEnd) -> None:
    async with sign_on(end) as alice:
        for answer in (None, make_prekey(BOB, b"x" * 32, later() + 1440)):
            async with trio.open_nursery() as sending:
                sending.start_soon(alice.send, BOB.public, SECRET)
                await wait_all_tasks_blocked()
                owe(end, alice, encode_answer(answer))
        await wait_all_tasks_blocked()
        await alice.send(BOB.public, SECRET)
        assert not end.refusals and not alice.problems.unread()
    asked, *plain, sealed = bodies(end)
    assert (asked, plain) == (ASK, [SECRET, SECRET]) and sealed.startswith(BEGINS)
