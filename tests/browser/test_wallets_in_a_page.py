"""Two wallets trade over the pool of a node: one in a page, which does its own work, and one in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import wallets
from chrome import fresh
from page_node import PageNode, page_node

from router import connect
from services import capd

pytestmark = pytest.mark.xdist_group("browser")


async def test_page_and_python_trade_over_the_pool(
    devtools: str, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = f"http://127.0.0.1:{port}"
    async with (
        page_node(tmp_path, origin, web=True, pool=True) as node,
        fresh(devtools) as browser,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(wallets.find, "ada", str(node.home.path))
        page = await browser.page(f"{origin}/test/capd.html")
        await page.until("window.trade")
        given = {"site": node.site, "invitation": await node.invite(), "offer": "5 for 7"}
        traded = await page.js(f"trade({json.dumps(given)})")
        assert traded["heard"] == "ada: done" and traded["rescinded"] == [traded["hash"]]
        assert (traded["state"], traded["left"]) == ("rescinded", 0)
        assert not page.complaints
    said = capsys.readouterr().out.splitlines()
    assert said == ["ada looks for offers", "ada takes: 5 for 7", "ada hears page: agreed"]


async def test_page_finds_what_python_offers(
    devtools: str, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = f"http://127.0.0.1:{port}"
    async with (
        page_node(tmp_path, origin, web=True, pool=True) as node,
        fresh(devtools) as browser,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(wallets.offer, "bob", "7 for 5", str(node.home.path))
        page = await browser.page(f"{origin}/test/capd.html")
        await page.until("window.find")
        given = {"site": node.site, "invitation": await node.invite()}
        assert await page.js(f"find({json.dumps(given)})") == {"took": "7 for 5", "heard": "bob: agreed"}
        assert not page.complaints
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["bob offers: 7 for 5", "bob hears page: done"] and said[2].startswith("bob rescinds ")


async def post(node: PageNode, *texts: bytes) -> None:
    async with connect(as_name="bob", home=node.home.path) as app, capd.open_pool(app) as pool:
        for text in texts:
            await pool.post(text)


async def test_page_that_watches_misses_nothing_while_its_node_is_away(
    devtools: str, port: int, tmp_path: Path
) -> None:
    origin = f"http://127.0.0.1:{port}"
    async with page_node(tmp_path, origin, web=True, pool=True) as node, fresh(devtools) as browser:
        page = await browser.page(f"{origin}/test/capd.html")
        await page.until("window.watches")
        watching = json.dumps({"site": node.site, "prefix": "544b44"})
        await page.js(f"void watches({watching})")
        await page.until("told.up === 1")
        await post(node, b"XCH other", b"TKD first")
        await page.until("told.hits.length === 1")
        await node.kill()
        await page.until("told.away.length > 0")
        await node.start()
        await post(node, b"TKD second")
        await page.until("told.hits.length === 2")
        assert await page.js("told.hits") == ["TKD first", "TKD second"]


async def test_page_is_told_why_the_pool_refuses(devtools: str, port: int, tmp_path: Path) -> None:
    origin = f"http://127.0.0.1:{port}"
    async with page_node(tmp_path, origin, web=True, pool=True) as node, fresh(devtools) as browser:
        page = await browser.page(f"{origin}/test/capd.html")
        await page.until("window.refusal")
        await post(node, b"TKD other")
        lie = """async pool => {
            const real = globalThis.fetch, asked = 'AB'.repeat(32), [other] = (await pool.query()).messages;
            if ((await pool.get(other.hash.toUpperCase())).hash !== other.hash) return 'lost';
            globalThis.fetch = (url, given) => real(String(url).replace(asked, other.hash), given);
            try { return await pool.get(asked); } finally { globalThis.fetch = real; }
        }"""
        refusals: dict[str, tuple[str, str | None, str]] = {
            "pool => pool.get('00'.repeat(32))": ("PoolError", "not-held", "does not hold this message"),
            lie: ("PoolError", "not-genuine", "was asked for ABAB"),
            "pool => pool.post({ data: '00' })": ("PoolError", "no-solver", "solve_cpu_percent"),
            "pool => pool.query({ prefix: 'zz' })": ("PoolError", "bad-request", "hexadecimal"),
            "pool => pool.offer(new Uint8Array(1), { relayFor: 600 })": ("RangeError", None, "no work makes"),
        }
        for act, (name, reason, text) in refusals.items():
            found = await page.js(f"refusal('{node.site}', {act})")
            assert found[:2] == [name, reason] and text in found[2]
        away = await page.js("refusal('http://127.0.0.1:9', pool => pool.info())")
        assert away[:2] == ["PoolError", "away"] and "cannot be reached" in away[2]


OWN = """import('/capd.js').then(async ({ Pool, text, words }) => {
  const pool = new Pool(), offer = await pool.offer(text('TKD own'), { relayFor: 60, workers: 2 });
  const { messages: [first] } = await pool.query({ prefix: text('TKD') });
  return [words((await pool.get(offer.hash)).data), first.hash === offer.hash];
})"""


async def test_page_of_the_node_itself_solves_and_posts(devtools: str, tmp_path: Path) -> None:
    async with page_node(tmp_path, web=True, pool=True) as node, fresh(devtools) as browser:
        page = await browser.page(f"{node.site}/")
        assert await page.js(OWN) == ["TKD own", True]
        assert not page.complaints
