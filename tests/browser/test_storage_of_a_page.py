"""A browser that keeps nothing, has no room, or takes away what it kept: the page says so and loses nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from chrome import Browser, Page, fresh
from page_node import PageNode, page_node
from rigs.patience import HANG_S

from router import Received, connect
from router.rig.process import until

pytestmark = pytest.mark.xdist_group("browser")
REFUSED = "IDBFactory.prototype.open = () => { throw new DOMException('', 'SecurityError'); }"
ROOM_BYTES, LONG_BYTES = 500_000, 700_000


@asynccontextmanager
async def heard_at(node: PageNode) -> AsyncIterator[tuple[list[Received], str]]:
    """Yield what an app of the node's owner gets of the group, as it comes, and an invitation to it."""
    got: list[Received] = []
    link = await node.invite()
    async with connect(home=node.home, as_name="friend", when_down="queue") as app, trio.open_nursery() as nursery:
        group = await app.join("friends")

        async def listen() -> None:
            async for message in group:
                got.append(message)

        nursery.start_soon(listen)
        yield got, link
        nursery.cancel_scope.cancel()


async def until_got(got: list[Received], due: list[str]) -> None:
    async def has_come() -> bool:
        return len(got) >= len(due)

    await until(f"the coming of {due}", has_come)
    assert [one.body.decode() for one in got] == due


async def loaded(browser: Browser, port: int, *, shared: bool = True) -> Page:
    page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
    await page.until("window.begin")
    if not shared:
        await page.js("delete window.SharedWorker")
    return page


async def begun(page: Page, **options: object) -> None:
    assert await page.js(f"begin({json.dumps({'name': 'kept', **options})})") == "friends"


async def test_page_whose_browser_keeps_nothing_talks_from_memory(devtools: str, port: int, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node, heard_at(node) as (got, link):
            page = await loaded(browser, port, shared=False)
            await page.js(f"void ({REFUSED})")
            await begun(page, invitation=link)
            await page.js("say('one', 2)")
            await until_got(got, ["one 0", "one 1"])
            assert "keeps nothing" in await page.js("node().mayForget")
            assert len([one for one in await page.js("told.problems") if "keeps nothing" in one]) == 1
            await node.kill()
            await page.js("keep('two', 2)")
            await node.start()
            await until_got(got, ["one 0", "one 1", "two 0", "two 1"])
            assert not any(await page.js("told.onDisk"))


async def removed_by_the_browser(page: Page, port: int) -> None:
    await page.call("Storage.clearDataForOrigin", origin=f"http://127.0.0.1:{port}", storageTypes="indexeddb")


async def removed_by_a_script(page: Page, port: int) -> None:
    await page.js("void indexedDB.deleteDatabase('upsycle kept')")


@pytest.mark.parametrize("remove", [removed_by_the_browser, removed_by_a_script])
async def test_page_goes_on_from_memory_when_what_it_kept_is_removed(
    devtools: str, port: int, tmp_path: Path, remove: Callable[[Page, int], Awaitable[None]]
) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node, heard_at(node) as (got, link):
            page = await loaded(browser, port)
            await begun(page, invitation=link)
            await page.js("say('one', 1)")
            await node.kill()
            await page.js("keep('two', 2)")
            await remove(page, port)
            await page.until("node().mayForget.includes('has removed')")
            await page.js("keep('three', 1)")
            await node.start()
            await until_got(got, ["one 0", "two 0", "two 1", "three 0"])
            assert await page.js("told.onDisk") == [True, True, False]


async def test_page_without_room_sends_from_memory_and_uses_no_number_twice(
    devtools: str, port: int, tmp_path: Path
) -> None:
    origin = f"http://127.0.0.1:{port}"
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node, heard_at(node) as (got, link):
            page = await loaded(browser, port)
            await page.call("Storage.overrideQuotaForOrigin", origin=origin, quotaSize=ROOM_BYTES)
            await begun(page, invitation=link)
            await page.js("say('one', 1)")
            await page.js(f"group().publish(router.text('x'.repeat({LONG_BYTES})))")
            await page.js(f"group().publish(router.text('y'.repeat({LONG_BYTES})))")
            due = ["one 0", "x" * LONG_BYTES, "y" * LONG_BYTES]
            await until_got(got, due)
            assert "no room" in await page.js("node().mayForget")
            await page.close()
            again = await loaded(browser, port)
            await again.call("Storage.overrideQuotaForOrigin", origin=origin)
            await begun(again, group="friends")
            await again.js("say('three', 1)")
            await until_got(got, [*due, "three 0"])
            assert len({one.seq for one in got}) == 4
