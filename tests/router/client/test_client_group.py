"""Groups: names, joining and leaving, publishers."""

from __future__ import annotations

import asyncio

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import FAMILY, OPEN, sign_on, take
from trio.testing import wait_all_tasks_blocked

import router
from router import ClientError, Refused
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import GroupLink
from router.core.wire.reasons import Reason


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


async def test_who_may_only_read_cannot_publish(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        for name in (FAMILY.read_only(), FAMILY.read_only().text(), OPEN.public, OPEN.public.hex()):
            with pytest.raises(router.CannotPublish, match="reading only"):
                await node.group(name).publish(b"x")
        assert repr(node.group(FAMILY.read_only())).endswith("read only>")


@pytest.mark.parametrize("group", [FAMILY, FAMILY.text(), SigningKey(b"g" * 32)])
async def test_the_names_of_a_group(end: RouterEnd, group: GroupLink | str | SigningKey) -> None:
    async with sign_on(end) as node:
        assert (await node.join(group)).key == FAMILY.group
        assert end.members[FAMILY.group] == {node.key: False}


async def test_join_refused(end: RouterEnd) -> None:
    end.join_answer = False
    async with sign_on(end) as node:
        with pytest.raises(router.JoinRefused) as caught:
            await node.join(OPEN)
        assert caught.value.group == OPEN.public and "operator" in str(caught.value)
        end.join_answer = True
        await node.join(OPEN)


async def test_join_not_answered(end: RouterEnd, autojump_clock: trio.testing.MockClock) -> None:
    end.join_answer = None
    async with sign_on(end) as node:
        with pytest.raises(router.NotAnswered, match="within 12 s"):
            await node.join(OPEN, timeout_s=12)
        assert len(end.heard[0]) == 3  # asked again every 5 s
        assert len(set(end.heard[0])) == 3
        await trio.sleep(20)
        assert len(end.heard[0]) == 3


async def test_two_tasks_join_one_group(end: RouterEnd) -> None:
    async with sign_on(end) as node, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(node.join, OPEN)
    assert len(end.heard[0]) == 1, "one JOIN is enough for all three"


async def test_leave(end: RouterEnd) -> None:
    async with sign_on(end, b"n") as node:
        group = await node.join(OPEN, local=True)
        assert end.members[OPEN.public] == {node.key: True}
        await group.leave()
        await node.leave(FAMILY.group)
        assert end.members[OPEN.public] == {}
        end.cut()
        await node.send(node.key, b"up again", plain=True)
        assert end.bodies(-1) == [b"up again"] and end.members[OPEN.public] == {}


@pytest.mark.parametrize("group", [FAMILY, FAMILY.text(), FAMILY.group.hex()])
async def test_leave_takes_the_names_of_a_group(end: RouterEnd, group: GroupLink | str) -> None:
    async with sign_on(end) as node:
        await node.join(FAMILY)
        await node.leave(group)
        assert end.members[FAMILY.group] == {}


async def test_what_names_no_group_disturbs_nothing(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        with pytest.raises(router.KeyringError, match='no group "nobody'):
            await node.leave("nobody")
        with pytest.raises(TypeError, match="name, link or key, not as bytes"):
            await node.leave(bytes(32))  # type: ignore[arg-type]
        await node.join(OPEN)


@pytest.mark.parametrize("span", [{"ttl_s": 1.5}, {"ttl_s": "5"}, {"expiry_min": True}])
async def test_lifetimes_are_whole_numbers(end: RouterEnd, span: dict[str, object]) -> None:
    async with sign_on(end) as node:
        with pytest.raises(TypeError, match=f"{next(iter(span))} is a whole number, not "):
            await node.group(OPEN).publish(b"x", **span)  # type: ignore[call-overload]


async def test_nothing_works_before_its_block(end: RouterEnd) -> None:
    with pytest.raises(ClientError, match="async with"):
        await sign_on(end).join(OPEN)
    with pytest.raises(ClientError, match="async with"):
        await take(sign_on(end), 1)
    async with sign_on(end) as node:
        with pytest.raises(ClientError, match="publisher is used in a `with` block"):
            await node.group(OPEN).publisher().publish(b"x")


def test_asyncio_is_told_about_trio() -> None:
    async def app() -> None:
        async with router.connect(url="memory://nowhere"):
            raise AssertionError

    with pytest.raises(ClientError, match="needs trio"):
        asyncio.run(app())


async def test_a_publisher_keeps_a_bounded_number_in_flight(end: RouterEnd) -> None:
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        end.holding = True
        async with node.group(OPEN).publisher(in_flight=3) as publisher, trio.open_nursery() as nursery:

            async def publish() -> None:
                for number in range(5):
                    await publisher.publish(b"%d" % number)

            nursery.start_soon(publish)
            await wait_all_tasks_blocked()
            assert publisher.in_flight == 3 and end.bodies(-1) == [b"0", b"1", b"2"]
            assert repr(publisher) == "<publisher: 0 settled, 3 of at most 3 in flight>"
            end.release()
        assert publisher.settled == 5


async def test_a_publisher_tells_of_refusals(end: RouterEnd) -> None:
    end.refuse = lambda message: Reason.BLOCKED if message.body == b"bad" else None
    async with sign_on(end) as bob, sign_on(end) as node:
        await bob.join(OPEN)
        group = node.group(OPEN)
        with pytest.raises(Refused):
            async with group.publisher() as publisher:
                for body in (b"good", b"bad", b"good"):
                    await publisher.publish(body)
        refused: list[Exception] = []
        async with group.publisher(on_refused=refused.append) as publisher:
            for body in (b"good", b"bad", b"bad", b"good"):
                await publisher.publish(body)
        assert (len(refused), publisher.settled) == (2, 2)
        with pytest.raises(ValueError, match="at least 1"):
            group.publisher(in_flight=0)


async def test_publish_many(end: RouterEnd) -> None:
    async with sign_on(end) as bob, sign_on(end) as node:
        his = await bob.join(FAMILY)
        ids = await node.group(FAMILY).publish_many((b"%d" % number for number in range(50)), in_flight=7)
        assert [one.id for one in await take(his, 50)] == ids
