"""The example of two wallets: one offers, the other finds it by a mask, they agree in a group; then it is rescinded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import wallets
from msgspec import structs
from rigs.serving import serving

import router
from router.rig.process import HANG_S, until
from router.settings.home import Home
from services import capd
from services.capd import reasons


async def test_two_wallets_find_each_other_and_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[[node.services]]\nname = "capd"\nmodule = "services.capd"\nrun = "inside"\n')
    async with serving(home.path, {"link.goodbye_s": 0.5}), trio.open_nursery() as nursery:
        nursery.start_soon(wallets.find, "ada", str(home.path))
        said: list[str] = []

        async def looks() -> bool:
            said.extend(capsys.readouterr().out.splitlines())
            return "ada looks for offers" in said

        await until("ada looks for offers", looks)
        await wallets.offer("bob", "5 for 7", str(home.path))
    lines = said + capsys.readouterr().out.splitlines()
    assert lines[:3] == ["ada looks for offers", "bob offers: 5 for 7", "ada takes: 5 for 7"]
    assert set(lines[3:5]) == {"ada hears bob: agreed", "bob hears ada: done"}
    assert len(lines) == 6 and lines[5].startswith("bob rescinds 00")


async def test_public_names_of_the_pool_do_what_a_wallet_needs(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[[node.services]]\nname = "capd"\nmodule = "services.capd"\nrun = "inside"\n')
    async with (
        serving(home.path, {"link.goodbye_s": 0.5}),
        router.connect(as_name="ann", home=home.path) as node,
        capd.open_pool(node) as pool,
    ):
        await pool.watch(b"TKD\0", b"\xff\xff\xff\0")
        first = await pool.post(b"TKD\x0cfirst", rescindable=True, replies_s=60)
        second = await pool.post(b"TKD\x0csecond")
        assert (first.announced_to, second.secret) == (0, b"")
        hits = [await anext(pool), await anext(pool)]
        assert [hit.data for hit in hits] == [b"TKD\x0cfirst", b"TKD\x0csecond"] and hits[0].id == first.id
        assert [hit.id for hit in await pool.query(b"TKD\x0c")] == [second.id, first.id], "the newest first"
        answer = await pool.reply(hits[0], b"I take it")
        reply = await anext(pool)
        assert (reply.id, reply.reply, reply.state) == (answer.id, b"I take it", "relayed") and reply.priority > 2
        for one in (*hits, reply):
            await one.settle()
        for what in (first, first, first.secret):
            await pool.rescind(what)
        for unknown in (b"no secret", structs.replace(first, secret=b"another's")):
            with pytest.raises(capd.PoolError, match="no-such-secret") as refused:
                await pool.rescind(unknown)
            assert refused.value.reason is reasons.NO_SUCH_SECRET
        assert [hit.id for hit in await pool.query(b"TKD\x0c", limit=5)] == [second.id]
        await pool.unwatch(b"TKD\0", b"\xff\xff\xff\0")
        with pytest.raises(capd.PoolError, match="no-such-query") as refused:
            await pool.unwatch(b"TKD\x0c")
        assert refused.value.reason is reasons.NO_SUCH_QUERY
        with pytest.raises(capd.PoolError, match="not posted with rescindable"):
            await pool.rescind(second)
        with pytest.raises(capd.PoolError, match="no work makes a message live for 600 s"):
            await pool.post(b"x", relay_s=600)
        with pytest.raises(capd.PoolError, match="pubsub"):
            async with capd.open_pool(node, "pubsub"):
                pass


@asynccontextmanager
async def node_with_pool(tmp_path: Path) -> AsyncIterator[Path]:
    """Run a node with a pool, and return its home."""
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[[node.services]]\nname = "capd"\nmodule = "services.capd"\nrun = "inside"\n')
    async with serving(home.path, {"link.goodbye_s": 0.5}):
        yield home.path


async def test_open_pool_leaves_unicasts_of_others_at_the_node(tmp_path: Path) -> None:
    async with (
        node_with_pool(tmp_path) as home,
        router.connect(as_name="ann", home=home) as node,
        router.connect(as_name="bob", home=home) as other,
    ):
        async with capd.open_pool(node) as pool:
            sent = await other.send(node.key, b"not of the pool", plain=True)
            assert await pool.query(b"TKD") == [], "answered after the other's unicast came"
            assert await pool.query(b"TKD") == []
        with trio.fail_after(HANG_S):
            async for one in node.unicasts():
                assert (one.id, one.body) == (sent, b"not of the pool")
                break


async def test_pool_opened_again_is_given_the_matches_that_the_first_left(tmp_path: Path) -> None:
    async with node_with_pool(tmp_path) as home, router.connect(as_name="ann", home=home) as node:
        async with capd.open_pool(node) as pool:
            await pool.watch(b"TKD")
            for text in (b"TKD 1", b"TKD 2", b"TKD 3"):
                await pool.post(text)
            await (await anext(pool)).settle()
        async with capd.open_pool(node) as pool:
            with trio.fail_after(HANG_S):
                hits = [await anext(pool), await anext(pool)]
        assert [hit.data for hit in hits] == [b"TKD 2", b"TKD 3"]


async def test_second_pool_at_one_connection_is_refused(tmp_path: Path) -> None:
    async with node_with_pool(tmp_path) as home, router.connect(home=home) as node:
        async with capd.open_pool(node):
            with pytest.raises(capd.PoolError, match="has a pool open already: use that one, or another connection"):
                async with capd.open_pool(node):
                    pytest.fail("two readers of the same unicasts")
        async with capd.open_pool(node) as pool:
            assert await pool.query() == []


def test_public_names_are_listed() -> None:
    assert set(capd.__all__) <= set(dir(capd))


async def test_wallet_rescinds_after_a_restart_by_the_secret_that_it_kept(tmp_path: Path) -> None:
    async with node_with_pool(tmp_path) as home:
        async with router.connect(home=home) as node, capd.open_pool(node) as pool:
            offer = await pool.post(b"TKD", rescindable=True)
        async with router.connect(home=home) as node, capd.open_pool(node) as pool:
            await pool.rescind(offer.secret)
            assert await pool.query(b"TKD") == []
            for secret in (b"", b"x" * 521):
                with pytest.raises(capd.PoolError, match=f"the secret has {len(secret)} bytes; one has 1 to 520"):
                    await pool.rescind(secret)


async def test_numbers_that_no_message_can_have_are_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    posts: list[tuple[dict[str, Any], str]] = [
        *(({"relay_s": one}, f"relay_s is {one}; .* from 1 to 599") for one in (-1, 0, 1.5)),
        ({"relay_s": 600}, "relay_s is 600: no work makes a message live for 600 s"),
        *(({"expires_s": one}, f"expires_s is {one}; .* from 1 to 65534") for one in (0, 70_000)),
        *(({"replies_s": one}, f"replies_s is {one}; .* from 1 to 2592000") for one in (0, 2_592_001)),
    ]
    async with node_with_pool(tmp_path) as home, router.connect(home=home) as node, capd.open_pool(node) as pool:
        for wishes, said in posts:
            with pytest.raises(capd.PoolError, match=said):
                await pool.post(b"TKD", **wishes)
        with pytest.raises(capd.PoolError, match="1000000 bytes of data; no pool takes more than 900000"):
            await pool.post(bytes(1_000_000))
        with pytest.raises(capd.PoolError, match="life_s is 0; give a whole number of seconds"):
            await pool.watch(b"TKD", life_s=0)
        for call in (pool.watch, pool.unwatch, pool.query):
            with pytest.raises(capd.PoolError, match="the prefix has 17 bytes, and only the first 16"):
                await call(bytes(17))
            with pytest.raises(capd.PoolError, match="the value has 2 bytes and the mask 1"):
                await call(b"TK", b"\xff")
        assert await pool.query() == []
        await pool.post(b"TKD", expires_s=10)
    assert capsys.readouterr() == ("", ""), "a library prints nothing"
