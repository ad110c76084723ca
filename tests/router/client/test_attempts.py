"""A message on which an app fails repeatedly: counted over its restarts, then refused, and the next one comes."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rigs.router_end import RouterEnd
from samples.apps import FAMILY

import router
from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason

KEY = SigningKey(b"k" * 32)


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


@pytest.fixture
async def group(end: RouterEnd) -> None:
    """Let two messages of the group wait for the app of `KEY`: one that it fails on, and one that it takes."""
    async with router.connect(url=end.url, key=KEY) as node, router.connect(url=end.url) as speaker:
        await node.join(FAMILY)
        for body in (b"\xff", b"good"):
            await speaker.group(FAMILY).publish(body)


async def fails(end: RouterEnd, home: Path, attempts_max: int) -> list[str]:
    problems: list[str] = []
    connected = router.connect(url=end.url, home=home, key=KEY, attempts_max=attempts_max, on_problem=problems.append)
    with pytest.raises(UnicodeDecodeError):
        async with connected as node:
            async for message in await node.join(FAMILY):
                message.body.decode()
    return problems


async def test_after_its_attempts_a_message_is_refused_and_the_next_comes(
    end: RouterEnd, group: None, tmp_path: Path
) -> None:
    assert await fails(end, tmp_path, 2) == []
    [said] = await fails(end, tmp_path, 2)
    assert said.startswith("this app failed 2 times on the message msg1") and "UnicodeDecodeError" in said
    assert said.endswith("it is refused, and the next one comes")
    assert end.refusals[-1][1] is Reason.PEER_REFUSED
    async with router.connect(url=end.url, home=tmp_path, key=KEY, attempts_max=2) as node:
        assert (await anext((await node.join(FAMILY)).messages())).body == b"good"


async def test_without_attempts_max_it_comes_without_end(end: RouterEnd, group: None, tmp_path: Path) -> None:
    for _ in range(7):
        assert await fails(end, tmp_path, 0) == []
    assert end.refusals == [] and not (tmp_path / "apps").exists()


async def test_leaving_and_a_lost_node_count_nothing(end: RouterEnd, group: None, tmp_path: Path) -> None:
    for error in (None, router.NodeUnavailable("gone"), KeyboardInterrupt()):
        try:
            async with router.connect(url=end.url, home=tmp_path, key=KEY, attempts_max=1) as node:
                await anext((await node.join(FAMILY)).messages())
                if error is not None:
                    raise error
        except (router.NodeUnavailable, KeyboardInterrupt):
            pass
    assert end.refusals == []


async def test_a_damaged_count_hides_no_error(end: RouterEnd, group: None, tmp_path: Path) -> None:
    await fails(end, tmp_path, 5)
    [path] = (tmp_path / "apps").glob("*.state/data.mdb")
    path.write_bytes(b"rubbish\n" * 1000)
    *_, said = await fails(end, tmp_path, 5)
    assert said.startswith(f"attempts cannot be counted: the state in {path.parent} cannot be opened: ")


async def test_a_refusal_by_no_reason_changes_nothing(end: RouterEnd, group: None, tmp_path: Path) -> None:
    async with router.connect(url=end.url, home=tmp_path, key=KEY) as node:
        message = await anext((await node.join(FAMILY)).messages())
        with pytest.raises(router.ClientError, match="'nonsense' is no reason to refuse a message; reasons are malf"):
            await message.refuse("nonsense")
        await message.refuse("internal")
    assert [reason for _, reason in end.refusals] == [Reason.INTERNAL]
