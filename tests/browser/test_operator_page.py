"""The operator's page in a browser: it opens by the link, keeps itself up to date, and is whole without scripts, on a
phone and by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from chrome import Page, PageFailed, fresh
from looks import AXE, MISSING, looked_at
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import SigningKey, connect
from router.rig.node import NodeProcess
from router.rig.process import until
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

pytestmark = pytest.mark.xdist_group("browser")
GROUP, READER = SigningKey(b"g" * 32), SigningKey(b"r" * 32)
WEB_SIDE = """
[[node.services]]
name = "web"
module = "services.web"

[services.web]
listen = ""
operator = "tcp://127.0.0.1:{port}"
"""
SUMMARIES = "document.querySelectorAll('summary').length"
TO_BEGIN = "(document.activeElement.blur(), getSelection().collapse(document.body, 0), delete window.before)"
STOP = """(one => {
  const { top, bottom, width } = one.getBoundingClientRect(), { outlineStyle, outlineWidth } = getComputedStyle(one);
  const isBehind = !window.before || !!(window.before.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
  const isShown = width > 4 && bottom > 0 && top < innerHeight;
  const isMarked = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
  window.before = one;
  const faults = [[isBehind, 'not in order'], [isShown, 'not in the window'], [isMarked, 'without a mark']];
  const said = faults.filter(([is]) => !is).map(([, words]) => words).join(', ') || 'seen';
  return [`${one.tagName} ${one.id || one.textContent}`, said];
})(document.activeElement)"""
"""Where the focus is: what it is on, and "seen" if it follows the last one and can be seen."""


def made(base: Path, port: int) -> NodeProcess:
    home = Home(base / "node")
    home.create("core", (f"tls://127.0.0.1:{free_port()}",))
    home.config_path.write_text(f"{home.config_path.read_text()}{WEB_SIDE.format(port=port)}")
    edit_peers(home.config_path, AddPeer(Peer(address=READER.public, name="reader", grant=("join", "store"))))
    return NodeProcess("node", home, base / "node.stderr", {"link.goodbye_s": 1, "verify.verifiers": 0})


async def arrived(page: Page, path: str) -> None:
    """Wait until the page of that path stands where another one was."""

    async def is_there() -> bool:
        try:
            return bool(await page.js(f"location.pathname === '{path}' && document.readyState === 'complete'"))
        except PageFailed:  # one page is just being replaced by the other
            return False

    await until(f"the page {path}", is_there)


async def stops_by_keys(page: Page) -> list[tuple[str, str]]:
    """Return where the focus stops, from the page's begin to its end, with whether it can be seen there."""
    await page.js(TO_BEGIN)
    stops: list[tuple[str, str]] = []
    while not stops or stops[-1][0] != "BUTTON Ask why":
        await page.keys("Tab")
        name, seen = await page.js(STOP)
        stops.append((name, seen))
        assert len(stops) < 40, stops
    return stops


async def test_page_lives_and_shows_what_waits(devtools: str, tmp_path: Path) -> None:
    node = made(tmp_path, free_port())
    with trio.fail_after(HANG_S):
        await node.start()
        async with fresh(devtools) as browser:
            page = await browser.page("about:blank")
            await page.goto((await node.run("web", "open", "--json")).json["url"])
            await arrived(page, "/")
            await page.until("document.getElementById('live').className === 'well'")
            await page.until("document.title.endsWith(': ' + document.querySelector('#state .name').textContent)")
            await page.js("document.querySelector('#traffic details').open = true")
            async with connect(home=node.home, key=READER) as app:
                await app.join(GROUP)
            async with connect(home=node.home) as app:
                for at in range(7):
                    sent = await app.group(GROUP).publish(b"%d" % at, raw=True)
            await page.until("/7 messages.*reader is away/.test(document.querySelector('#queues li')?.textContent)")
            assert await page.js("document.querySelector('#traffic details').open"), "what is open stays so"

            still = {"name": "prefers-reduced-motion", "value": "reduce"}  # else it scrolls for a while
            await page.call("Emulation.setEmulatedMedia", features=[still])
            stops = await stops_by_keys(page)
            names = [name for name, _ in stops]
            assert names[0] == "A To what is wrong, or that nothing is" and names[-2:] == ["INPUT id", "BUTTON Ask why"]
            assert len([one for one in names if one.startswith("SUMMARY")]) == await page.js(SUMMARIES)
            assert all(seen == "seen" for _, seen in stops), stops
            await page.js("document.querySelector('.skip').focus()")
            await page.keys("Enter", "Tab")
            assert await page.js("location.hash") == "#verdict"
            assert (await page.js(STOP))[0] == names[1]
            await page.js("document.getElementById('id').focus()")
            await page.call("Input.insertText", text=sent.hex())
            await page.keys("Enter")
            await arrived(page, "/why")
            assert "reached 0 of 1 recipient" in await page.js("document.querySelector('h1').textContent")
            assert not page.complaints

            home = await page.js("new URL('./', location).href")
            await page.call("Emulation.setScriptExecutionDisabled", value=True)
            await page.call(
                "Emulation.setDeviceMetricsOverride", width=380, height=800, deviceScaleFactor=1, mobile=True
            )
            await page.goto(home)
            root = (await page.call("DOM.getDocument"))["root"]["nodeId"]
            assert "7 messages" in (await page.call("DOM.getOuterHTML", nodeId=root))["outerHTML"]
            assert (await page.call("Page.getLayoutMetrics"))["cssContentSize"]["width"] <= 380
            assert not page.complaints
        await node.kill()


@pytest.mark.skipif(not AXE.is_file(), reason=MISSING)
async def test_axe_finds_nothing_in_the_operators_pages(devtools: str, tmp_path: Path) -> None:
    axe, node = AXE.read_text(), made(tmp_path, free_port())
    with trio.fail_after(HANG_S):
        await node.start()
        async with fresh(devtools) as browser, connect(home=node.home) as app:
            async with connect(home=node.home, key=READER) as reader:
                await reader.join(GROUP)
            sent = await app.group(GROUP).publish(b"x", raw=True)
            page = await browser.page("about:blank")
            await page.call("Page.setBypassCSP", enabled=True)
            opened = (await node.run("web", "open", "--json")).json["url"]
            await page.goto(opened)
            await arrived(page, "/")
            await page.until("/1 message.*reader is away/.test(document.querySelector('#queues li')?.textContent)")
            await page.js("document.querySelectorAll('details').forEach(one => one.open = true)")
            await looked_at(page, axe, tmp_path, "page")
            for state, url in (("why", f"why?id={sent.hex()}"), ("shut", opened)):
                await page.goto(await page.js(f"new URL('{url}', location).href"))
                await looked_at(page, axe, tmp_path, state)
        await node.kill()
