"""The chat: a link, a name, a button; then it talks with an app that speaks like examples/chat.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from chrome import fresh
from page_node import page_node
from rigs.patience import HANG_S

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
