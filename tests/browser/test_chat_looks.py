"""The chat is usable by everybody: axe-core finds nothing in small and wide, light and dark; keys suffice."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from chat_rig import HOW, ann_at, entered, has_lines, invited, say
from chrome import fresh
from looks import AXE, MISSING, looked_at
from page_node import page_node
from rigs.patience import HANG_S

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.skipif(not AXE.is_file(), reason=MISSING)
async def test_axe_finds_nothing_in_any_state_of_the_chat(devtools: str, tmp_path: Path) -> None:
    axe = AXE.read_text()
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            page = await browser.page(link)
            await page.until("!document.getElementById('enter').hidden")
            await looked_at(page, axe, tmp_path, "enter")
            await page.close()
            async with ann_at(node) as ann:
                page = await entered(browser, link)
                await say(page, "Is anybody there?\nI have brought the plans.")
                for words in ("Here I am.", "See https://example.org/plans, all of it.", "w" * 200):
                    await ann.say(words)
                await say(page, "Good.")
                await has_lines(page, 5)
                await page.js("document.querySelector('.mine .how').click()")
                await page.until("document.querySelector('.mine .why').textContent !== ''")
                await looked_at(page, axe, tmp_path, "room")
                await node.kill()
                await page.until("document.getElementById('state').className === 'away'")
                await say(page, "later")
                await has_lines(page, 6)
                await looked_at(page, axe, tmp_path, "away")


async def test_keys_alone_enter_say_and_ask(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            async with ann_at(node) as ann:
                page = await browser.page(link)
                await page.until("document.activeElement.id === 'name'")
                await page.keys(*"Ben", "Enter")
                await page.until("document.activeElement.id === 'text'")
                await page.until("document.getElementById('state').className === 'up'")
                await page.keys(*"hello", "Enter")
                await ann.until_got(1)
                assert ann.got == ["Ben: hello"]
                await page.until(f"{HOW}[0] === 'reached 1 of 1'")
                ways = []
                for _ in range(12):
                    await page.keys("Tab")
                    ways.append(await page.js("document.activeElement.id || document.activeElement.className"))
                    if ways[-1] == "how":
                        break
                assert ways[-1] == "how", ways
                await page.keys("Enter")
                await page.until("document.querySelector('.mine .why').textContent.includes('reached 1 of 1')")
