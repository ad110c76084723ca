"""What the chat tells: how far a message came and why, what is missing, what came unseen; and it forgets."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from chat_rig import HOW, LINES, ann_at, entered, has_lines, invited, say
from chrome import fresh
from page_node import page_node
from rigs.patience import HANG_S

from router import connect
from router.rig.process import until

pytestmark = pytest.mark.xdist_group("browser")
WHY = "document.querySelector('.mine .why').textContent"
NOBODY_LOOKS = """(hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
})"""
COUNT_NOTIFICATIONS = """(() => {
  const real = ServiceWorkerRegistration.prototype.showNotification;
  globalThis.notified = 0;
  ServiceWorkerRegistration.prototype.showNotification = function (...given) {
    notified++;
    return real.apply(this, given);
  };
})()"""
LOOKED_AT = "(await navigator.locks.query()).held.filter(one => one.name.startsWith('chat seen'))"
STATE = "document.getElementById('state').textContent"
WIDEST = "document.documentElement.scrollWidth <= innerWidth"


async def test_tap_on_an_own_message_asks_the_node_who_waits_and_why(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            async with connect(home=node.home, as_name="away") as away:
                await away.join("friends")
            async with ann_at(node) as ann:
                page = await entered(browser, link)
                await say(page, "hello")
                await ann.until_got(1)
                await page.until(f"{HOW}[0] === 'reached 1 of 2'")
                await page.js("document.querySelector('.mine .how').click()")
                await page.until(f"{WHY} !== ''")
                told = await page.js(WHY)
                assert "It has reached 1 of 2." in told and "1 waiting at the node for somebody who is away" in told
                assert await page.js("document.querySelector('.mine .how').ariaExpanded") == "true"
                await node.kill()
                await page.until("document.getElementById('state').className === 'away'")
                await say(page, "later")
                await page.until(f"{HOW}[1] === 'waiting on this device'")
                await page.js("[...document.querySelectorAll('.mine .how')][1].click()")
                await page.until("[...document.querySelectorAll('.mine .why')][1].textContent.includes('kept on this')")
                await node.start()
                async with connect(home=node.home, as_name="away") as away:
                    async for message in await away.join("friends"):
                        await message.settle()
                        if message.body == b"Ben: later":
                            break
                    looked_at = "document.dispatchEvent(new Event('visibilitychange'))"  # it asks when it is seen again
                    await page.until(f"{looked_at} && {HOW}.every(one => one === 'reached 2 of 2')")


async def test_gap_is_said_and_an_answer_stands_behind_its_question(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            async with connect(home=node.home, as_name="other") as other, ann_at(node) as ann:
                await other.join("friends")
                await ann.say("said before")
                page = await entered(browser, link)
                await ann.say("said now")
                await has_lines(page, 1)
                assert await page.js(LINES) == ["Ann: said now"]
                assert await page.js("document.querySelectorAll('.gap').length") == 1
                assert "is not here" in await page.js("document.querySelector('.gap').textContent")
                await ann.say("and this")
                await has_lines(page, 2)
                assert await page.js("document.querySelectorAll('.gap').length") == 1
                await page.goto(f"{node.site}/chat/")
                await has_lines(page, 2)
                assert await page.js("document.querySelectorAll('.gap').length") == 1, "it is kept with the line"


async def test_what_comes_while_nobody_looks_is_counted_and_notified(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            await browser.allow(node.site, "notifications")
            async with ann_at(node) as ann:
                page = await entered(browser, link)
                await page.until("navigator.serviceWorker.controller")
                await page.js(f"{NOBODY_LOOKS}(true)")
                await ann.say("one")
                await ann.say("two")
                await page.until("document.title === '(2) friends'")
                shown = "navigator.serviceWorker.ready.then(place => place.getNotifications())"
                await page.until(f"(await {shown}).some(one => one.body === 'Ann: two')")
                await page.js(f"{NOBODY_LOOKS}(false)")
                assert await page.js("document.title") == "friends"


async def test_two_tabs_notify_once_and_not_while_one_of_them_is_looked_at(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            await browser.allow(node.site, "notifications")
            async with ann_at(node) as ann:
                first = await entered(browser, link)
                second = await browser.page(f"{node.site}/chat/")
                await second.until("document.getElementById('state').className === 'up'")
                await second.until("!document.getElementById('room').hidden")  # from now on it says if it is looked at
                for page in (first, second):
                    await page.js(COUNT_NOTIFICATIONS)
                    await page.js(f"{NOBODY_LOOKS}(true)")
                await first.until(f"!({LOOKED_AT}).length")

                await ann.say("one")  # what became of a line is decided when the next one is shown
                for page in (first, second):
                    await page.until("document.title === '(1) friends'")
                await second.js(f"{NOBODY_LOOKS}(false)")
                await second.until(f"({LOOKED_AT}).length === 1")
                await ann.say("two")
                await ann.say("three")
                for page in (first, second):
                    await has_lines(page, 3)
                assert [await page.js("document.title") for page in (first, second)] == ["(1) friends", "friends"]
                before = await second.js("notified")
                await second.close()
                await first.until(f"!({LOOKED_AT}).length")
                await ann.say("four")
                await first.until("document.title === '(2) friends'")
                await first.until(f"notified + {before} === 2")


async def test_lines_words_links_and_markup_of_any_kind_are_shown_as_text(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            async with ann_at(node) as ann:
                page = await entered(browser, link, "<b>Ben</b>\n: x")
                await page.call(
                    "Emulation.setDeviceMetricsOverride", width=380, height=800, deviceScaleFactor=1, mobile=True
                )
                await say(page, "two\nlines")
                await ann.until_got(1)
                assert ann.got == ["<b>Ben</b>  x: two\nlines"]
                long = "w" * 3000
                for words in (long, f"https://example.org/{long}", "<script>document.title = 'x'</script>", "a\n\nb"):
                    await ann.say(words)
                await ann.group.publish(b"<i>Eve</i>: \xff\xfe <img src=x>")
                await ann.group.publish(b"no name at all")
                await has_lines(page, 7)
                found = await page.js(LINES)
                assert found[1] == f"Ann: {long}" and found[4] == "Ann: a\n\nb" and found[6] == "no name at all"
                assert found[5].startswith("<i>Eve</i>: ")
                assert await page.js("document.querySelectorAll('.line :is(img, script, i, b)').length") == 0
                assert await page.js(WIDEST), "nothing is wider than the window"
                assert not page.complaints


async def test_forget_me_here_removes_all_and_the_old_link_does_not_come_back(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            link = await invited(node)
            async with ann_at(node) as ann:
                page = await entered(browser, link)
                await page.js("localStorage.setItem('of another page', 'stays')")
                await say(page, "hello")
                await ann.until_got(1)
                async with page.loading():
                    await page.js("void (confirm = () => true, document.getElementById('forget').click())")
                await page.until("document.getElementById('notice').textContent.includes('Nobody has invited')")
                assert "could not be told" not in await page.js("document.getElementById('notice').textContent")
                assert await page.js(STATE) == "Not invited."
                members = (await node.run("groups", "--json")).json
                assert len(members) == 1, "Ann alone"
                assert await page.js("indexedDB.databases().then(all => all.length)") == 0
                assert await page.js("Object.keys(localStorage)") == ["of another page"]
                kept = await page.js("caches.keys()")
                assert all(one.startswith("chat ") for one in kept), "the page's files alone come back with it"
                assert await page.js("navigator.serviceWorker.getRegistrations().then(all => all.length)") <= 1
                await page.goto("about:blank")
                await page.goto(link)
                await page.until("!document.getElementById('enter').hidden")
                await page.js(
                    "(document.getElementById('name').value = 'Ben', document.getElementById('enter').requestSubmit())"
                )
                await page.until("document.getElementById('notice').textContent.includes('Ask for a new one')")
                assert await page.js(STATE) == "Not invited."
                assert await page.js("document.getElementById('enter').hidden")


async def test_guest_whose_rights_have_ended_is_told_so_also_when_it_comes_again(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path, web=True) as node:
            page = await entered(browser, await invited(node))
            [guest] = [one for one in (await node.run("peers", "--json")).json if one["standing"] != "local"]

            async def is_removed() -> bool:
                return (await node.run("peer", "remove", guest["address"])).code == 0

            await until("the removal of the guest", is_removed)  # who may just be being written into router.toml
            await page.until(f"{STATE}.startsWith('Ended: ')")
            await page.goto(f"{node.site}/chat/")
            await page.until(f"{STATE}.startsWith('Ended: ')")
