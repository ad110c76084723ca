"""Measure the client in a page, beside bare signatures in the same page: `python tests/browser/measure_page.py`.

Prints the rows of docs/measured/web.md, "In a page". Short windows of the bare operation and of the client's own follow
one another, and each pair gives a ratio: of their rates, and of the CPU time that the browser's renderers took for one
operation, which other work on the machine changes less. The figures are medians. `--rounds N` takes more of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))

from chrome import Browser, Page, fresh, running
from page_node import page_node
from site_of_pages import served

from router import Group, connect

BODY_BYTES = 1_024
BARE_OPERATIONS, OWN_OPERATIONS, MESSAGES, WARM_UP = 600, 300, 300, 5
"""Operations in one window: bare ones, those of the client's parts, and messages on their whole way;
and rounds before the first that counts."""
PREPARE = """(async () => {
  const [{ newKey, signWith, verify }, { Composer }, { Causes }, { open }, wire] = await Promise.all(
    ['keys', 'composer', 'causes', 'opening', 'wire'].map(name => import(`../router/${name}.js`)));
  const [me, group] = [await newKey(), await newKey()], name = wire.hex(group.public), nowMs = () => Date.now();
  const nowMin = () => wire.expiryMin(nowMs() / 1000), body = new Uint8Array(BODY_BYTES), sign = signWith(me.secret);
  const composer = new Composer({ key: me, sign, nowMs, nowMin });
  const kept = { key: group.public, contentKey: wire.random(32), seq: 0, recent: [], heads: [], signer: group.secret };
  const causes = new Causes(kept), groups = new Map([[name, { kept }]]), signature = await sign(body);
  let wires = [];
  const timed = async run => { const from = performance.now(); await run(); return performance.now() - from; };
  window.measured = {
    sign: count => timed(async () => { for (let i = 0; i < count; i++) await sign(body); }),
    verify: count => timed(async () => { for (let i = 0; i < count; i++) await verify(signature, body, me.public); }),
    compose: count => timed(async () => {
      wires = [];
      for (let i = 0; i < count; i++) {
        const { id, wire } = await composer.multicast({ name, kept, causes }, { body, ttl: 86400, minutes: 60 });
        wires.push(wire);
        causes.kept(id);
      }
    }),
    open: count => timed(async () => {
      const opened = await Promise.all(wires.slice(0, count).map(one => open(one, me.public, groups)));
      if (opened.length < count || opened.some(one => one.error)) throw new Error('a message was not opened');
    }),
    publish: count => timed(() => Promise.all(Array.from({ length: count }, () => window.group().publish(body)))),
  };
})()""".replace("BODY_BYTES", str(BODY_BYTES))


class Window(NamedTuple):
    """What one operation took in a window, in µs: on the clock, of the renderers' CPU, and of the browser's other
    processes' CPU, which keep what a page keeps and carry what it sends."""

    clock_us: float
    renderer_us: float
    other_us: float


class Gauge:
    """Takes the CPU time of the browser's processes before and after something."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    async def window(self, count: int, act: Callable[[], Awaitable[float]]) -> Window:
        """Return what each of `count` operations took; `act` returns the milliseconds that all took."""
        processes = await self._browser.processes()
        before = {pid: _cpu_ns(pid) for pid, _ in processes}
        taken_ms = await act()
        spent = {True: 0, False: 0}
        for pid, kind in processes:
            spent[kind == "renderer"] += max(0, _cpu_ns(pid) - before[pid])
        return Window(1000 * taken_ms / count, spent[True] / 1000 / count, spent[False] / 1000 / count)


def _cpu_ns(pid: int) -> int:
    """Return the time for which the threads of a process have run; 0 if it has ended."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except OSError:  # the thread has ended
            continue
    return total


class Measured(NamedTuple):
    """A row. `goal`: the least ratio; None if there is no goal. `per`: bare operations that one message needs."""

    name: str
    bare: str
    own: str
    per: int
    goal: float | None


ROWS = (
    Measured("Opening a message (id, seal, signature), beside bare verification", "verify", "open", 1, 0.25),
    Measured("Composing one (seal, two signatures), beside two bare signatures", "sign", "compose", 2, 0.5),
    Measured("Receiving one from the node, beside bare verification", "verify", "receive", 1, 0.25),
    Measured("Publishing one, until the node has it, beside two bare signatures", "sign", "publish", 2, 0.5),
)


async def opened(page: Page, options: str) -> None:
    await page.until("window.begin")
    await page.js(f"begin({options})")
    await page.js(PREPARE)


async def received(page: Page, group: Group) -> float:
    """Let the page receive messages; return the milliseconds from the first to the last."""
    before = int(await page.js("told.got.length"))
    async with group.publisher(in_flight=MESSAGES) as publisher:
        for number in range(MESSAGES):
            await publisher.publish(number.to_bytes(BODY_BYTES, "big"))
    await page.until(f"told.got.length >= {before + MESSAGES}")
    return float(await page.js(f"told.at.at(-1) - told.at[{before}]"))


async def round_of(gauge: Gauge, page: Page, group: Group) -> dict[str, Window]:
    async def run(name: str, count: int) -> Window:
        async def act() -> float:
            return float(await page.js(f"measured.{name}({count})"))

        return await gauge.window(count, act)

    return {
        "sign": await run("sign", BARE_OPERATIONS),
        "compose": await run("compose", OWN_OPERATIONS),
        "publish": await run("publish", MESSAGES),
        "verify": await run("verify", BARE_OPERATIONS),
        "open": await run("open", OWN_OPERATIONS),
        "receive": await gauge.window(MESSAGES, lambda: received(page, group)),
    }


async def main(folder: Path, devtools: str, port: int, rounds: int) -> None:
    url = f"http://127.0.0.1:{port}/test/talk.html"
    async with fresh(devtools) as browser, page_node(folder / "home") as node:
        link = await node.invite()
        async with connect(home=node.home, as_name="friend") as app:
            group = await app.join("friends")
            page = await browser.page(url)
            began = time.perf_counter()
            await opened(page, f"{{ name: 'rate', invitation: '{link}' }}")
            joined_s = time.perf_counter() - began
            gauge = Gauge(browser)
            for _ in range(WARM_UP):
                await round_of(gauge, page, group)  # until the scripts are compiled as they will be
            found = []
            for number in range(1, rounds + 1):
                found.append(await round_of(gauge, page, group))
                print(f"\rround {number} of {rounds}", end="", flush=True)
    print(f"\rfrom the invitation to joined: {joined_s:.2f} s (goal: at most 2)\n")
    for row in ROWS:
        show(row, found)


def show(row: Measured, rounds: list[dict[str, Window]]) -> None:
    clock = [row.per * one[row.bare].clock_us / one[row.own].clock_us for one in rounds]
    cpu = [row.per * one[row.bare].renderer_us / one[row.own].renderer_us for one in rounds]
    bare, own = (
        tuple(median(values) for values in zip(*(one[name] for one in rounds), strict=True))
        for name in (row.bare, row.own)
    )
    goal = "" if row.goal is None else f"; goal {row.goal}: {'met' if median(cpu) >= row.goal else 'not met'}"
    print(f"{row.name}: {_spread(cpu)} by CPU, {_spread(clock)} by the clock{goal}")
    for name, (clock_us, renderer_us, other_us) in ((row.bare, bare), (row.own, own)):
        cpu_us = f"CPU {renderer_us:.0f} of renderers, {other_us:.0f} of the browser's others"
        print(f"    {name}: {clock_us:.0f} µs; {cpu_us}")


def _spread(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.2f}"
    low, _, high = quantiles(values, n=4)
    return f"{median(values):.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure the client in a page, beside bare signatures.")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="router-pages-") as place, served() as site:
        chrome = Path(place) / "chrome"
        chrome.mkdir()
        with running(chrome) as tools:
            trio.run(main, Path(place), tools, site.server_port, given.rounds)
