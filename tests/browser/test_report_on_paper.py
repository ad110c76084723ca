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
