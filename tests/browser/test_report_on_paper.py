"""The audit's page as a browser prints it: all that is folded on the screen is there, and what is for the screen is
not."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from chrome import fresh
from samples.summaries import sample

from spark_analytics.report.page import render

pytestmark = pytest.mark.xdist_group("browser")

A4_PX = 680
"""The width of an A4 page between its margins."""
FOLDED = """[...document.querySelectorAll('details')].map(at =>
  at.lastElementChild.checkVisibility({contentVisibilityAuto: true}))"""
SCREEN = "['nav', '#theme'].map(at => getComputedStyle(document.querySelector(at)).display)"
ROOM = """[...document.querySelectorAll('h2, h3')].map(at => {
  const room = getComputedStyle(at, '::after');
  return parseFloat(room.height) > 100 && parseFloat(room.height) + parseFloat(room.marginBottom) === 0;
})"""

TABLES = """[...document.querySelectorAll('table')].map(at =>
  getComputedStyle(at.tHead).breakAfter === 'avoid'
  && getComputedStyle(at.tBodies[0].rows[0]).breakBefore === 'avoid')"""

WHOLE = """[...document.querySelectorAll('.findings .key, .findings .key-name')].map(at => {
  const style = getComputedStyle(at), after = getComputedStyle(at, '::after').content;
  return style.overflowX === 'visible' && style.maxWidth === 'none' && style.display === 'inline'
    && (at.matches('.key') || after.includes(at.dataset.key));
})"""
INSIDE = """(() => {
  const page = document.querySelector('main').getBoundingClientRect();
  return [...document.querySelectorAll('.ytick, .row-value > *')].map(at => {
    const place = at.getBoundingClientRect();
    return [at.textContent, place.left >= page.left && place.right <= page.right + 0.5];
  });
})()"""
TOGETHER = """[...document.querySelectorAll('.picture')].map(at =>
  getComputedStyle(at).breakInside === 'avoid' && getComputedStyle(at).display === 'block')"""


async def test_keys_of_findings_are_printed_whole_and_no_chart_is_cut(devtools: str, tmp_path: Path) -> None:
    summary = sample()
    router, other = (row["router"] for row in summary["logs"][:2])
    text = f"The router {router} says that {other} took over {'ab' * 32}."
    summary["findings"] = [{"level": "bad", "text": text, "remedy": ""}]
    summary["clocks"][0] |= {"lower_ns": 3_660_000, "upper_ns": -88}
    for row in summary["queues"]:
        row |= {"limit": 1_000_000, "full_in_s": 9 * 10**9}
    path = tmp_path / "report.html"
    path.write_text(render(summary, {router: "attic"}), "utf-8")
    async with fresh(devtools) as browser:
        page = await browser.page(path.as_uri())
        await page.call("Emulation.setEmulatedMedia", media="print")
        metrics = {"width": A4_PX, "height": 986, "deviceScaleFactor": 1, "mobile": False}
        await page.call("Emulation.setDeviceMetricsOverride", **metrics)
        await page.until(f"({TOGETHER}).every(Boolean)")
        assert await page.js(WHOLE) == [True] * 3
        places = await page.js(INSIDE)
        assert "500,000" in [text for text, _ in places]
        assert [text for text, is_inside in places if not is_inside] == []


async def test_page_is_printed_unfolded_and_without_what_is_for_the_screen(devtools: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(sample()), "utf-8")
    async with fresh(devtools) as browser:
        page = await browser.page(path.as_uri())
        folded = await page.js(FOLDED)
        assert len(folded) > 10 and not any(folded)
        assert "none" not in await page.js(SCREEN)
        await page.call("Emulation.setEmulatedMedia", media="print")
        await page.until(f"({FOLDED}).every(Boolean)")  # by the style alone, where no script runs; a frame later
        assert set(await page.js(SCREEN)) == {"none"}
        assert all(await page.js(ROOM)), "no heading stands alone at a page's foot"
        assert all(await page.js(TABLES)), "nor does the head of a table"
        printed = await page.call("Page.printToPDF", preferCSSPageSize=True)
        pdf = base64.b64decode(printed["data"])
        assert pdf.startswith(b"%PDF-") and 15 < pdf.count(b"/Type /Page\n") < 40
