"""A page talks through the web side of a real node: each message comes once and in order, whatever ends meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from chrome import Browser, Page, fresh
from page_node import page_node
from rigs.patience import HANG_S

from router import Group, Node, connect
from router.rig.process import until

pytestmark = pytest.mark.xdist_group("browser")
EACH = 8


def words(prefix: str, count: int = EACH) -> list[str]:
    return [f"{prefix} {n}" for n in range(count)]


class Friend:
    """An app of the node's owner, in the same group."""

    def __init__(self, node: Node, group: Group) -> None:
        self.node, self.group = node, group
        self.got: list[str] = []

    async def listen(self) -> None:
        async for message in self.group:
            self.got.append(message.body.decode())

    async def say(self, prefix: str) -> None:
        for one in words(prefix):
            await self.group.publish(one.encode())

    async def until_got(self, due: list[str]) -> None:
        async def has_come() -> bool:
            return len(self.got) >= len(due)

        await until(f"the coming of {due[-1]}", has_come)
        assert self.got == due


async def opened(browser: Browser, port: int, **options: object) -> Page:
    page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
    await page.until("window.begin")
    assert await page.js(f"begin({json.dumps({'name': 'talk', **options})})") == "friends"
    return page


async def has_got(page: Page, due: list[str]) -> None:
    await page.until(f"told.got.length >= {len(due)}")
    assert await page.js("told.got") == due


async def test_each_message_comes_once_and_in_order(devtools: str, port: int, tmp_path: Path) -> None:
    site = f"http://127.0.0.1:{port}"
    with trio.fail_after(HANG_S):
        async with (
            fresh(devtools) as browser,
            page_node(tmp_path, site, web=True) as node,
            trio.open_nursery() as nursery,
        ):
            link = await node.invite()
            async with connect(home=node.home, as_name="friend", when_down="queue") as app:
                friend = Friend(app, await app.join("friends"))
                nursery.start_soon(friend.listen)
                page = await opened(browser, port, invitation=link)
                assert len(await page.js("say('one', 8)")) == EACH
                await friend.say("ONE")
                await friend.until_got(said := words("one"))
                await has_got(page, heard := words("ONE"))

                await page.js("void (window.saying = say('two', 8))")
                await node.kill()
                await page.js("void (window.more = say('three', 8))")
                await node.start()
                await page.js("Promise.all([saying, more])")
                await friend.say("TWO")
                await friend.until_got(said := said + words("two") + words("three"))
                await has_got(page, heard := heard + words("TWO"))

                second = await opened(browser, port, group="friends")
                await friend.say("THREE")
                await page.js("say('four', 8)")
                await second.js("say('five', 8)")
                await friend.until_got(said := said + words("four") + words("five"))
                await has_got(page, heard + words("THREE"))
                await has_got(second, words("THREE"))

                await page.close()
                await friend.say("FOUR")
                await has_got(second, words("THREE") + words("FOUR"))
                await node.kill()
                await second.js("keep('six', 8)")
                await second.close()
                await node.start()
                third = await opened(browser, port, group="friends")
                await friend.say("FIVE")
                await friend.until_got(said + words("six"))
                await has_got(third, words("FIVE"))

                rotated = await node.run("keys", "rotate-node")  # while it runs: both follow it to its next key
                assert rotated.code == 0, rotated.stderr
                await friend.say("SIX")
                assert len(await third.js("say('seven', 8)")) == EACH
                await friend.until_got(said + words("six") + words("seven"))
                await has_got(third, words("FIVE") + words("SIX"))
                assert await third.js("told.refused.concat(told.problems)") == []
                assert await third.js("node().waiting.size") == 0
            nursery.cancel_scope.cancel()


async def test_an_app_hears_that_a_page_opens_nothing_and_sends_in_the_open(
    devtools: str, port: int, tmp_path: Path
) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, f"http://127.0.0.1:{port}", web=True) as node:
            page = await opened(browser, port, invitation=await node.invite())
            async with connect(home=node.home, as_name="friend") as app:
                await app.send(await page.js("node().key"), b"to the page alone")
                read = "for await (const one of node().unicasts()) return router.words(one.body);"
                assert await page.js(f"(async () => {{ {read} }})()") == "to the page alone"
