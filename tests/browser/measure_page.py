"""Measure the client in a page, beside bare signatures in the same page: `python tests/browser/measure_page.py`.

Prints the rows of docs/measured.md, "In a page". Nothing hangs on the figures but what is written there."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))

from chrome import Page, fresh, running
from page_node import page_node
from site_of_pages import served

from router import connect

MESSAGES, BODY_BYTES, ROUNDS = 3_000, 1_024, 3
BARE = """(async () => {
  const { newKey, signWith, verify } = await import('../router/keys.js');
  const key = await newKey(), sign = signWith(key.secret);
  const bodies = Array.from({ length: 4000 }, () => new Uint8Array(1024));
  const sigs = await Promise.all(bodies.map(sign)), rate = async run => {
    const from = performance.now();
    await Promise.all(bodies.map(run));
    return 1000 * bodies.length / (performance.now() - from);
  };
  return [await rate(sign), await rate((body, i) => verify(sigs[i], body, key.public))];
})()"""
PUBLISH = f"""(async () => {{
  const from = performance.now(), body = new Uint8Array({BODY_BYTES});
  await Promise.all(Array.from({{ length: {MESSAGES} }}, () => group().publish(body)));
  return 1000 * {MESSAGES} / (performance.now() - from);
}})()"""
RECEIVED = f"told.got.length >= {MESSAGES} && told.at.at(-1) - told.at[0] > 0"


async def opened(page: Page, options: str) -> None:
    await page.until("window.begin")
    await page.js(f"begin({options})")


async def main(folder: Path, devtools: str, port: int) -> None:
    url = f"http://127.0.0.1:{port}/test/talk.html"
    async with fresh(devtools) as browser, page_node(folder / "home") as node:
        link = await node.invite()
        async with connect(home=node.home, as_name="friend") as app:
            group = await app.join("friends")
            page = await browser.page(url)
            await page.until("window.begin")
            began = time.perf_counter()
            await page.js(f"begin({{ name: 'rate', invitation: '{link}' }})")
            joined_s = time.perf_counter() - began
            for _ in range(ROUNDS):
                sign, verify = await page.js(BARE)
                publish = await page.js(PUBLISH)
                async with trio.open_nursery() as nursery:
                    nursery.cancel_scope.deadline = trio.current_time() + 60
                    await page.close()
                    async with group.publisher(in_flight=1000) as publisher:
                        for number in range(MESSAGES):
                            await publisher.publish(number.to_bytes(BODY_BYTES, "big"))
                    page = await browser.page(url)
                    await opened(page, "{ name: 'rate', group: 'friends' }")
                    await page.until(RECEIVED)
                first, last = await page.js("[told.at[0], told.at.at(-1)]")
                receive = 1000 * (MESSAGES - 1) / (last - first)
                print(
                    f"verify {verify:,.0f}/s sign {sign:,.0f}/s receive {receive:,.0f}/s ({receive / verify:.2f}) "
                    f"publish {publish:,.0f}/s ({publish / (sign / 2):.2f}) joined {joined_s:.2f} s",
                    flush=True,
                )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="router-pages-") as place, served() as at:
        chrome = Path(place) / "chrome"
        chrome.mkdir()
        with running(chrome) as tools:
            trio.run(main, Path(place), tools, at)
