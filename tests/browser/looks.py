"""Whether a page is usable by everybody: axe-core finds nothing in small and wide, light and dark."""

from __future__ import annotations

from pathlib import Path

from chrome import Page
from site_of_pages import TREE

AXE = TREE / ".tools" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
MISSING = "axe-core is not here: `make axe` fetches it"
LOOKS = [(width, scheme) for width in (380, 1280) for scheme in ("light", "dark")]
FOUND = """axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
  violations.map(one => `${one.id}: ${one.help}: ${one.nodes.map(node => node.html).join(' ')}`))"""


async def look(page: Page, width: int, scheme: str) -> None:
    await page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
    )
    await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


async def looked_at(page: Page, axe: str, folder: Path, state: str) -> None:
    """Look at the page in each form; pictures of it lie in the folder of the test."""
    await page.call("Runtime.evaluate", expression=axe)
    for width, scheme in LOOKS:
        await look(page, width, scheme)
        await page.picture(folder / f"{state}-{width}-{scheme}.png")
        assert await page.js(FOUND) == [], f"{state}, {width} pixels, {scheme}"
