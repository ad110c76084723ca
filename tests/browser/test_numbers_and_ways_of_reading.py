"""A page's sequence numbers, its own signer, raw bodies and causal order, at a real node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from chrome import Browser, Page, fresh
from page_node import PageNode, page_node
from rigs.patience import HANG_S

from router import Group, Node, Received, connect
from router.client.composer import Lifetime
from router.rig.process import until

pytestmark = pytest.mark.xdist_group("browser")


class Friend:
    """An app of the node's owner that keeps all it is given of the group."""

    def __init__(self, node: Node, group: Group) -> None:
        self.node, self.group = node, group
        self.got: list[Received] = []

    async def listen(self) -> None:
        async for message in self.group:
            self.got.append(message)

    async def until_got(self, count: int) -> None:
        async def has_come() -> bool:
            return len(self.got) >= count

        await until(f"the coming of {count} messages", has_come)
        assert len(self.got) == count


@asynccontextmanager
async def friend_at(node: PageNode, *, raw: bool = False) -> AsyncIterator[Friend]:
    async with connect(home=node.home, as_name="friend") as app, trio.open_nursery() as nursery:
        friend = Friend(app, await app.join("friends", raw=raw))
        nursery.start_soon(friend.listen)
        yield friend
        nursery.cancel_scope.cancel()


async def opened(browser: Browser, port: int, *, in_a_tab: bool = False, **options: object) -> Page:
    """Return a page that takes part; `in_a_tab`: its end of the link is in the tab, where a test can reach it."""
    page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
    await page.until("window.begin")
    if in_a_tab:
        await page.js("delete window.SharedWorker")
    assert await page.js(f"begin({json.dumps({'name': 'talk', **options})})") == "friends"
    return page


async def test_numbers_are_used_once_however_often_the_group_is_joined(
    devtools: str, port: int, tmp_path: Path
) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with friend_at(node) as friend:
                page = await opened(browser, port, invitation=link)
                await page.js(
                    "Promise.all([...Array(20).keys()].map(n => Promise.all([say(`a${n}`, 2), node().join()])))"
                )
                await friend.until_got(40)
                await page.js("node().leave(group())")
                assert "was left" in await page.js("say('not', 1).catch(error => error.message)")
                await page.js("node().join().then(again => again.publish(router.text('again')))")
                await friend.until_got(41)
                assert [one.seq for one in friend.got] == list(range(41))


async def test_page_reads_in_causal_order(devtools: str, port: int, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with friend_at(node) as friend:
                page = await opened(browser, port, invitation=link, join={"order": "causal"})
                await friend.group.publish(b"first")
                await page.until("told.got.length === 1")
                question, answer = (friend.group.signed(body, Lifetime()) for body in (b"question", b"answer"))
                await friend.node.wires.hand_in(answer)
                await friend.node.wires.hand_in(question)
                await page.until("told.got.length === 3")
                assert await page.js("told.got") == ["first", "question", "answer"]
                assert await page.js("told.missing") == [0, 0, 0]


async def test_page_is_not_kept_waiting_for_what_was_said_before_it_joined(
    devtools: str, port: int, tmp_path: Path
) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with friend_at(node) as friend, connect(home=node.home, as_name="other") as other:
                await other.join("friends")
                await friend.group.publish(b"before")
                page = await opened(browser, port, invitation=link, join={"order": "causal", "gap_s": 3600})
                await friend.group.publish(b"after")
                await page.until("told.got.length === 1")
                assert await page.js("[told.got, told.missing]") == [["after"], [1]]


async def test_signer_of_the_apps_own_is_its_key_in_all_tabs(devtools: str, port: int, tmp_path: Path) -> None:
    seed = bytes(range(32))
    signer = (
        f"import('../router/keys.js').then(keys => keys.keyOfSeed(new Uint8Array({list(seed)}))"
        ".then(key => window.own = { public: key.public, sign: keys.signWith(key.secret) }))"
    )
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with friend_at(node) as friend:
                page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
                await page.until("window.begin")
                await page.js(f"{signer}.then(() => 0)")
                assert await page.js(f"begin({{ name: 'signs', signer: own, invitation: '{link}' }})") == "friends"
                await page.js("say('one', 1)")
                await friend.until_got(1)
                assert friend.got[0].sender is not None
                assert friend.got[0].sender.hex() == await page.js("router.hex(own.public)")
                bad = "router.connect({ signer: { public: 'x' } }).catch(error => error.message)"
                assert "32 bytes" in await page.js(bad)
                second = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
                await second.until("window.begin")
                other = signer.replace("[0, 1,", "[9, 1,")
                await second.js(f"{other}.then(() => 0)")
                said = "router.connect({ name: 'signs', signer: own }).catch(error => error.message)"
                assert "another key" in await second.js(said)


async def test_raw_bodies_go_unsealed_both_ways(devtools: str, port: int, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with friend_at(node, raw=True) as friend:
                page = await opened(browser, port, invitation=link, join={"raw": True})
                await page.js("say('raw', 1)")
                await friend.until_got(1)
                assert (friend.got[0].body, friend.got[0].sender) == (b"raw 0", None)
                await friend.group.publish(b"back")
                await page.until("told.got.length === 1")
                assert await page.js("told.got") == ["back"]
                asked = "node().join('friends', { order: 'causal' }).catch(error => error.message)"
                assert "sealed" in await page.js(asked)


async def test_loop_that_is_left_does_not_show_its_last_message_twice(devtools: str, port: int, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with connect(home=node.home, as_name="friend") as app:
                group = await app.join("friends")
                page = await browser.page(f"http://127.0.0.1:{port}/test/blank.html")
                await page.until("window.router")
                await page.js(
                    "(async () => { window.node = await router.connect({ name: 'loops', "
                    f"invitation: '{link}' }}); window.group = await node.join(); }})()"
                )
                for body in (b"one", b"two", b"three"):
                    await group.publish(body)
                first = "(async () => { for await (const one of group) return router.words(one.body); })()"
                assert [await page.js(first) for _ in range(3)] == ["one", "two", "three"]
                for number in range(12):
                    await group.publish(b"%d" % number)
                loops = "const got = []; while (got.length < 12) got.push(await " + first + "); return got;"
                got = f"(async () => {{ {loops} }})()"
                assert await page.js(got) == [str(number) for number in range(12)]
