"""The chat: a link, a name, a button; then it talks with an app that speaks like examples/chat.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from chat_rig import ann_at, entered, has_lines, invited, say
from chrome import INSECURE_HOST, fresh
from cut_network import network_at
from page_node import page_node
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import connect
from router.rig.process import until

pytestmark = pytest.mark.xdist_group("browser")
MARKUP = "<img src=x onerror=alert(1)> see https://example.org/a?b=c."
LINES = "[...document.querySelectorAll('.line > p')].map(one => one.textContent)"


async def test_guest_opens_the_link_gives_a_name_and_talks(devtools: str, tmp_path: Path) -> None:
    got: list[str] = []
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node, trio.open_nursery() as nursery:
            opened = str((await node.run("web", "invite", "--group", "friends", "--json")).json["link"])
            assert opened.startswith(f"{node.site}/chat/#")
            async with connect(home=node.home, as_name="chat-Ann") as app:
                group = await app.join("friends")

                async def listen() -> None:
                    async for message in group:
                        got.append(message.body.decode())

                async def has_come() -> bool:
                    return bool(got)

                async def has_both() -> bool:
                    return len(got) > 2

                nursery.start_soon(listen)
                page = await browser.page(opened)
                await page.until("!document.getElementById('enter').hidden")
                assert await page.js("location.hash") == "", "the secret does not stay in the address bar"
                hindered = (await page.call("Page.getInstallabilityErrors"))["installabilityErrors"]
                assert {one["errorId"] for one in hindered} <= {"in-incognito"}
                assert "friends" in await page.js("document.getElementById('invited').textContent")
                await page.js(
                    "(document.getElementById('name').value = 'Ben', document.getElementById('enter').requestSubmit())"
                )
                await page.until("document.getElementById('state').textContent.startsWith('Connected')")
                await page.until("!document.getElementById('room').hidden")
                said = json.dumps("hello\nall")
                await page.js(
                    f"(document.getElementById('text').value = {said}, document.getElementById('say').requestSubmit())"
                )
                await until("what the page said", has_come)
                assert got == ["Ben: hello\nall"]
                await page.until("document.querySelector('.mine .how')?.textContent === 'reached 1 of 1'")
                await group.publish(f"Ann: {MARKUP}".encode())
                await page.until("document.querySelectorAll('.line').length === 2")
                assert await page.js(LINES) == ["hello\nall", f"Ann: {MARKUP}"]
                assert await page.js("document.querySelector('.line a').href") == "https://example.org/a?b=c"
                assert await page.js("document.querySelectorAll('.line img').length") == 0

                await page.goto(f"{node.site}/chat/")
                await page.until("!document.getElementById('room').hidden")
                assert await page.js(LINES) == ["hello\nall", f"Ann: {MARKUP}"], "they stand before what is said next"
                assert await page.js("document.querySelector('.mine .how').textContent") == "reached 1 of 1"
                second = await browser.page(f"{node.site}/chat/")
                await second.until("!document.getElementById('room').hidden")
                await second.js(
                    "(document.getElementById('text').value = 'two', document.getElementById('say').requestSubmit())"
                )
                for tab in (second, page):
                    await tab.until("document.querySelectorAll('.mine .how')[1]?.textContent === 'reached 1 of 1'")
                await second.close()
                assert not page.complaints

                kept = "caches.match(new URL('history.js', location)).then(found => !!found)"
                await page.until(f"navigator.serviceWorker.controller && {kept}")
                await page.until("caches.match(new URL('../router/engine.js', location)).then(found => !!found)")
                await node.kill()
                await page.goto(f"{node.site}/chat/")
                await page.until("document.querySelectorAll('.line').length === 3")
                await page.js(
                    "(document.getElementById('text').value = 'later', document.getElementById('say').requestSubmit())"
                )
                await page.until(
                    "[...document.querySelectorAll('.mine .how')].at(-1).textContent.startsWith('waiting')"
                )
                await node.start()
                await until("what the page said without the node", has_both)
                assert got[1:] == ["Ben: two", "Ben: later"]
            nursery.cancel_scope.cancel()


async def test_guest_from_another_machine_talks_over_https_by_the_nodes_name(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True, secured=True) as node:
            link = await invited(node)
            assert link.startswith("https://") and INSECURE_HOST in link
            async with ann_at(node) as ann:
                page = await entered(browser, link)
                assert await page.js("isSecureContext && location.protocol === 'https:'")
                await say(page, "hello")
                await ann.until_got(1)
                await ann.say("and to you")
                await has_lines(page, 2)
                await page.until("navigator.serviceWorker.controller")
                assert not page.complaints


async def test_kept_page_opens_on_a_network_that_swallows_everything(devtools: str, tmp_path: Path) -> None:
    seen_at = free_port()
    with trio.fail_after(HANG_S):
        async with (
            fresh(devtools) as browser,
            page_node(tmp_path, web=True, seen_at=seen_at) as node,
            network_at(seen_at, node.port) as network,
        ):
            link = await invited(node)
            async with ann_at(node) as ann:
                page = await entered(browser, link)
                await say(page, "before")
                await ann.until_got(1)
                await page.until("navigator.serviceWorker.controller")
                kept = "caches.match(new URL('../router/talk.js', location)).then(found => !!found)"
                await page.until(kept)
                await network.swallow()
                await page.goto(f"{node.site}/chat/")
                await has_lines(page, 1)
                assert network.swallowed > 0
                await say(page, "meanwhile")
                await page.until("document.querySelectorAll('.mine .how')[1]?.textContent.startsWith('waiting')")
                network.mend()
                await page.js("void dispatchEvent(new Event('online'))")
                await ann.until_got(2)
                assert ann.got == ["Ben: before", "Ben: meanwhile"]
