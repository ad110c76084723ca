"""What the former key of a correspondent signs, once an app was told that it was renewed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from rigs.router_end import RouterEnd, later
from samples.apps import sign_on, take
from trio.testing import wait_all_tasks_blocked

import router
from router.client.former_keys import SAY_AGAIN_S, FormerKey, FormerKeys
from router.core.wire.crypto import SigningKey
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.renewal import READ_S, encode_renewal_notice, make_renewal

BOB, NEW = SigningKey(b"b" * 32), SigningKey(b"n" * 32)


@pytest.fixture
async def end(nursery: trio.Nursery) -> AsyncIterator[RouterEnd]:
    made = RouterEnd()
    await nursery.start(made.run)
    yield made


def owe(end: RouterEnd, to: router.Node, body: bytes, source: SigningKey = BOB) -> None:
    end.owe(to.key, seal_unicast(source, to.key, body, ttl_s=60, expiry_min=later()))


async def told_of_a_renewal(end: RouterEnd, alice: router.Node, home: Path, at_s: int) -> None:
    async with sign_on(end, seed=b"b", home=home) as bob:
        await bob.send(alice.key, b"hello")
        [message] = await take(alice, 1)
        await message.settle()
    owe(end, alice, encode_renewal_notice(make_renewal(BOB, NEW, at_s, at_s + READ_S)))
    await wait_all_tasks_blocked()


async def test_for_a_week_it_may_have_been_on_its_way_and_the_app_is_told(end: RouterEnd, tmp_path: Path) -> None:
    async with sign_on(end, seed=b"a", home=tmp_path) as alice:
        await told_of_a_renewal(end, alice, tmp_path, int(time.time()))
        owe(end, alice, b"psst")
        [message] = await take(alice, 1)
        assert message.body == b"psst"
        assert [one for one in alice.problems.unread() if "who wrote it is a thief; ask at the new address" in one]


async def test_then_it_is_refused(end: RouterEnd, tmp_path: Path) -> None:
    async with sign_on(end, seed=b"a", home=tmp_path) as alice:
        await told_of_a_renewal(end, alice, tmp_path, int(time.time()) - READ_S - 60)
        owe(end, alice, b"psst")
        owe(end, alice, b"from the new one", NEW)
        [message] = await take(alice, 1)
        assert message.body == b"from the new one"
        await wait_all_tasks_blocked()
        assert [reason for _, reason in end.refusals] == [Reason.PEER_REFUSED]
        assert [one for one in alice.problems.unread() if "its owner signs by the new one" in one]


def test_it_is_told_once_a_minute() -> None:
    said, now_s = list[str](), 1_800_000_000.0
    keys, renewal = FormerKeys(said.append, lambda: now_s), make_renewal(BOB, NEW, int(now_s), int(now_s) + READ_S)
    for _ in range(3):
        keys.judge(renewal)
    now_s += SAY_AGAIN_S
    keys.judge(renewal)
    assert len(said) == 2
    now_s += READ_S
    with pytest.raises(FormerKey):
        keys.judge(renewal)
