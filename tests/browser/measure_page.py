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
    for (let i = 0; i < bodies.length; i++) await run(bodies[i], i);
    return 1000 * bodies.length / (performance.now() - from);
  };
  return [await rate(sign), await rate((body, i) => verify(sigs[i], body, key.public))];
})()"""
OWN = """(async () => {
  const [{ newKey, signWith }, { Composer }, { Causes }, { open }, wire] = await Promise.all(
    ['keys', 'composer', 'causes', 'opening', 'wire'].map(name => import(`../router/${name}.js`)));
  const [me, group] = [await newKey(), await newKey()], name = wire.hex(group.public), nowMs = () => Date.now();
  const nowMin = () => wire.expiryMin(nowMs() / 1000), body = new Uint8Array(1024), n = 2000, wires = [], taken = [];
  const composer = new Composer({ key: me, sign: signWith(me.secret), nowMs, nowMin });
  const kept = { key: group.public, contentKey: wire.random(32), seq: 0, recent: [], heads: [], signer: group.secret };
  const causes = new Causes(kept), groups = new Map([[name, { kept }]]);
  let from = performance.now();
  for (let i = 0; i < n; i++) {
    const { id, wire } = await composer.multicast({ name, kept, causes }, { body, ttl: 86400, minutes: 60 });
    wires.push(wire);
    causes.kept(id);
  }
  taken.push(performance.now() - from);
  from = performance.now();
  const opened = await Promise.all(wires.map(one => open(one, me.public, groups)));
  taken.push(performance.now() - from);
  return opened.some(one => one.error) ? ['', ''] : taken.map(one => 1000 * n / one);
})()"""
PUBLISH = f"""(async () => {{
  const from = performance.now(), body = new Uint8Array({BODY_BYTES});
  let kept = 0;
  await Promise.all(Array.from({{ length: {MESSAGES} }}, () => group().publish(body, {{ onKept: () => {{
    if (++kept === {MESSAGES}) window.keptAfter = performance.now() - from;
  }} }})));
  return [keptAfter, performance.now() - from].map(taken => 1000 * {MESSAGES} / taken);
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
                composed, opened_rate = await page.js(OWN)
                kept, custody = await page.js(PUBLISH)
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
                    f"verify {verify:,.0f}/s, open {opened_rate / verify:.2f} of it; sign {sign:,.0f}/s, "
                    f"compose {composed / (sign / 2):.2f} of half; on the device {kept:,.0f}/s, in custody "
                    f"{custody:,.0f}/s, received {receive:,.0f}/s; joined in {joined_s:.2f} s",
                    flush=True,
                )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="router-pages-") as place, served() as at:
        chrome = Path(place) / "chrome"
        chrome.mkdir()
        with running(chrome) as tools:
            trio.run(main, Path(place), tools, at)
