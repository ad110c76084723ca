"""A page that is older or newer than its node, than the other tabs, or than what the browser has kept: it says so with
the remedy, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from chrome import Page, PageFailed, fresh
from page_node import page_node
from rigs.patience import HANG_S
from site_of_pages import served

from router import connect

pytestmark = pytest.mark.xdist_group("browser")
RAISED = """new Promise((done, failed) => {
  const asked = indexedDB.open('%s', 9);
  Object.assign(asked, { onsuccess: () => { asked.result.close(); done(true); }, onerror: () => failed(asked.error) });
})"""
KEY = """new Promise(done => {
  const asked = indexedDB.open('upsycle kept');
  asked.onsuccess = () => {
    const run = asked.result.transaction(['kept', 'outbox']), key = run.objectStore('kept').get('key');
    const waiting = run.objectStore('outbox').count();
    run.oncomplete = () => { asked.result.close(); done([key.result.public.join(), waiting.result]); };
  };
})"""
HISTORY = """(async () => {
  const { openHistory } = await import('/chat/history.js');
  const history = await openHistory(said => { throw new Error(said); });
  const first = await history.add({ id: 'one', group: 'a' }), again = await history.add({ id: 'one', group: 'a' });
  await %s;
  const late = await history.add({ id: 'two', group: 'a' }).then(() => 'added', error => error.message);
  const next = await openHistory(() => {}).then(() => 'opened', error => error.message);
  return [first, again, late, next];
})()"""


async def loaded(page: Page) -> Page:
    await page.until("window.begin")
    return page


async def test_page_says_with_the_remedy_that_its_node_serves_other_files_by_now(devtools: str, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S), served() as site:
        site.edition = "aa"
        url, said = f"http://127.0.0.1:{site.server_port}/test/talk.html", "told.problems.filter(one => /%s/.test(one))"
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            first, link = await loaded(await browser.page(url)), await node.invite()
            async with connect(home=node.home, as_name="friend") as app:
                await app.join("friends")  # for whom messages wait
            assert await first.js(f"begin({{ name: 'kept', invitation: '{link}' }})") == "friends"
            await node.kill()
            await first.js("keep('one', 1)")
            site.edition = "bb"
            await node.start()
            await first.until(f"{said % 'the node serves another version'}.length === 1")
            await first.until("told.custody.length === 1")
            second = await loaded(await browser.page(url))
            await second.js("begin({ name: 'kept', group: 'friends' })")
            assert len(await second.js(said % "a page of another version holds the connection")) == 1
            await second.close()
            async with first.loading():
                await first.call("Page.reload")
            await loaded(first)
            await first.js("begin({ name: 'kept', group: 'friends' })")
            await first.js("say('two', 1)")
            assert await first.js(said % "version") == []


async def test_what_a_newer_page_has_kept_is_refused_with_a_sentence_and_stays(
    devtools: str, port: int, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{port}/test/talk.html"
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            page = await loaded(await browser.page(url))
            assert await page.js(f"begin({{ name: 'kept', invitation: '{await node.invite()}' }})") == "friends"
            await node.kill()
            await page.js("keep('one', 2)")
            before = await page.js(KEY)
            assert before[1] == 2
            assert await page.js(RAISED % "upsycle kept")
            await page.until("node().state === 'ended'")
            assert "load this page again" in await page.js("node().stateText")
            with pytest.raises(PageFailed, match="load this page again"):
                await page.js("keep('two', 1)")
            async with page.loading():
                await page.call("Page.reload")
            await loaded(page)
            with pytest.raises(PageFailed, match="of a newer version than this page"):
                await page.js("begin({ name: 'kept', group: 'friends' })")
            assert await page.js(KEY) == before


async def test_page_and_engine_that_do_not_speak_alike_say_so(devtools: str, port: int) -> None:
    hello = "{ op: 'hello', n: 1, talk: %s }"
    async with fresh(devtools) as browser:
        page = await loaded(await browser.page(f"http://127.0.0.1:{port}/test/talk.html"))
        await page.js(
            "import('../router/engine.js').then(async ({ Engine }) => {"
            " window.answers = [];"
            " window.engine = await Engine.open('talk', null, (tab, said) => answers.push(said)); })"
        )
        for talk in (1, 2, "undefined"):  # pages from before there was a number say none
            await page.js(f"engine.hear('tab', {hello % talk})")
        said = await page.js("answers.map(one => one.error?.text ?? one.answer.talk)")
        assert said[0] == said[2] == 1 and "close them, then load it again" in said[1]


async def test_chat_does_not_go_on_beside_what_a_newer_one_has_kept(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/blank.html")
        first, again, late, following = await page.js(HISTORY % (RAISED % "chat history"))
        assert (first, again) == (True, False)
        assert "a newer version of this page" in late and "a newer version of this page" in following


@pytest.mark.parametrize(
    "item",
    [
        "[2, { v: [2], key: new Uint8Array(32) }]",
        "[8, 2, 'the peer offers link versions [1], this end speaks 2']",
    ],
)
async def test_page_whose_node_speaks_another_link_version_is_told_to_load_again(
    devtools: str, port: int, item: str
) -> None:
    """The node's hello or goodbye, as a later one may say it, comes to the link; its own goes nowhere."""
    newer = f"""class {{ static OPEN = 1; readyState = 1; send() {{}} close() {{}}
      constructor() {{ import('../router/wire.js').then(wire => {{
        const item = wire.encode({item});
        this.onopen();
        this.onmessage({{ data: wire.joined(wire.frameHead(item.length), item).buffer }});
      }}); }} }}"""
    async with fresh(devtools) as browser:
        page = await loaded(await browser.page(f"http://127.0.0.1:{port}/test/talk.html"))
        await page.js(f"void (delete window.SharedWorker, window.WebSocket = {newer})")
        await page.js("void begin({ name: 'older', url: 'ws://127.0.0.1:9/link' }).catch(() => {})")
        await page.until("told.away.length === 1")
        said = await page.js("told.away[0]")
        assert "load the page again" in said and "What waits here stays" in said
