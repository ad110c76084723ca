"""Two nodes with a browser each, and examples/chat.py at a third: each message comes once, whatever ends meanwhile."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from chat_rig import HOW, LINES, entered, invited
from chrome import Page, fresh
from cut_network import network_at
from page_node import PageNode, page_node
from rigs.ports import free_port
from site_of_pages import TREE

from router.rig.process import Process, until

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.long]
EACH = 200
TURN = EACH // 4
SCENE_S = 600.0


class Terminal:
    """examples/chat.py as it runs in a terminal: `got` are the lines that it prints."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.got: list[str] = []

    async def read(self) -> None:
        while (line := await self._process.next_line()) is not None:
            self.got.append(line)

    async def say(self, words: list[str]) -> None:
        for one in words:
            await self._process.tell(one)


def words_of(turn: int) -> list[str]:
    return [f"word {number}" for number in range(turn * TURN, (turn + 1) * TURN)]


async def say_all(page: Page, turn: int) -> None:
    """Say the words of a turn as fast as the page takes them."""
    await page.js(
        f"{words_of(turn)}.forEach(one => {{ document.getElementById('text').value = one;"
        " document.getElementById('say').requestSubmit(); })"
    )


async def has_heard(page: Page, name: str, count: int) -> None:
    """Wait until the page shows so many words of somebody, and hold that they came once and in order."""
    heard = f"{LINES}.filter(one => one.startsWith('{name}: '))"
    await page.until(f"{heard}.length >= {count}")
    assert await page.js(heard) == [f"{name}: word {number}" for number in range(count)]


@asynccontextmanager
async def terminal_at(node: PageNode, name: str) -> AsyncIterator[Terminal]:
    """Yield the chat in a terminal at this node."""
    command = ("env", f"ROUTER_HOME={node.home.path}", sys.executable, str(TREE / "examples" / "chat.py"))
    process = Process(name, (*command, "friends", name), node.home.path / "chat.stderr")
    await process.start()
    async with trio.open_nursery() as nursery:
        terminal = Terminal(process)
        nursery.start_soon(terminal.read)
        yield terminal
        await process.kill()


async def taken_in(node: PageNode, at: PageNode, name: str) -> None:
    """Let a node become a neighbour of another, and know its group."""
    link = str((await at.run("invite", "--group", "friends", "--at", at.url, "--json")).json["link"])
    await node.run("peer", "add", link, "--name", name, "--yes")


async def test_each_message_comes_once_and_in_order_whatever_ends(devtools: str, tmp_path: Path) -> None:
    seen_at = free_port()
    with trio.fail_after(SCENE_S):
        async with (
            fresh(devtools) as browser_a,
            fresh(devtools) as browser_b,
            page_node(tmp_path / "a", web=True, role="core", seen_at=seen_at) as node_a,
            network_at(seen_at, node_a.port) as network,
            page_node(tmp_path / "b", web=True) as node_b,
            page_node(tmp_path / "c", web=True) as node_c,
        ):
            for node in (node_b, node_c):
                await taken_in(node, node_a, "hub")
            async with terminal_at(node_c, "Cid") as cid:
                ann = await entered(browser_a, await invited(node_a), "Ann")
                ben = await entered(browser_b, await invited(node_b), "Ben")

                async def all_have_heard(count: int) -> None:
                    async def has_come() -> bool:
                        return sum(one[:3] in ("Ann", "Ben") for one in cid.got) >= 2 * count

                    for page, other in ((ann, "Ben"), (ben, "Ann"), (ann, "Cid"), (ben, "Cid")):
                        await has_heard(page, other, count)
                    await until(f"{count} words of both at the terminal", has_come)

                async def turn(number: int) -> None:
                    await say_all(ann, number)
                    await say_all(ben, number)
                    await cid.say(words_of(number))

                await turn(0)
                await node_a.kill()
                await turn(1)
                await node_a.start()
                await all_have_heard(2 * TURN)

                await turn(2)
                await ben.until(f"document.querySelectorAll('.mine').length === {3 * TURN}")  # it is on Ben's disk
                await ben.close()
                await network.cut()
                ben = await browser_b.page(f"{node_b.site}/chat/")
                await ben.until("document.getElementById('state').className === 'up'")
                second = await browser_b.page(f"{node_b.site}/chat/")
                await second.until("document.getElementById('state').className === 'up'")
                await turn(3)
                network.mend()
                await all_have_heard(EACH)
                await has_heard(second, "Ann", EACH)
                await has_heard(second, "Cid", EACH)
                await ann.until(f"{HOW}.every(one => one.startsWith('reached'))")
                for name in ("Ann", "Ben"):
                    said = [line for line in cid.got if line.startswith(f"{name}: ")]
                    assert said == [f"{name}: word {number}" for number in range(EACH)]
