"""The chat in a browser as somebody uses it, and an app beside it that speaks like examples/chat.py."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from chrome import Browser, Page
from page_node import PageNode

from router import Group, connect
from router.rig.process import until

LINES = "[...document.querySelectorAll('.line > p')].map(one => one.textContent)"
HOW = "[...document.querySelectorAll('.mine .how')].map(one => one.textContent)"


async def invited(node: PageNode) -> str:
    """Return the link of an invitation into the chat."""
    return str((await node.run("web", "invite", "--group", "friends", "--json")).json["link"])


async def entered(browser: Browser, link: str, name: str = "Ben") -> Page:
    """Return a tab in which somebody has opened the link and given a name, and which is connected."""
    page = await browser.page(link)
    await page.until("!document.getElementById('enter').hidden")
    given = f"document.getElementById('name').value = {json.dumps(name)}"
    await page.js(f"({given}, document.getElementById('enter').requestSubmit())")
    await page.until("!document.getElementById('room').hidden && document.getElementById('state').className === 'up'")
    return page


async def say(page: Page, words: str) -> None:
    typed = f"document.getElementById('text').value = {json.dumps(words)}"
    await page.js(f"({typed}, document.getElementById('say').requestSubmit())")


async def has_lines(page: Page, count: int) -> None:
    await page.until(f"document.querySelectorAll('.line').length === {count}")


class Ann:
    """The app of the node's owner: `got` are the bodies that it was given."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.got: list[str] = []

    async def listen(self) -> None:
        async for message in self.group:
            self.got.append(message.body.decode())

    async def say(self, words: str) -> None:
        await self.group.publish(f"Ann: {words}".encode())

    async def until_got(self, count: int) -> None:
        async def has_come() -> bool:
            return len(self.got) >= count

        await until(f"the coming of {count} messages", has_come)


@asynccontextmanager
async def ann_at(node: PageNode) -> AsyncIterator[Ann]:
    async with connect(home=node.home, as_name="chat-Ann", when_down="queue") as app, trio.open_nursery() as nursery:
        ann = Ann(await app.join("friends", order="causal"))
        nursery.start_soon(ann.listen)
        yield ann
        nursery.cancel_scope.cancel()
