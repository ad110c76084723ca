"""Messages made in a page are those that Python makes, to the byte."""

from __future__ import annotations

import pytest
from chrome import fresh

pytestmark = pytest.mark.xdist_group("browser")


async def test_page_makes_the_messages_of_the_vectors(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/vectors.html")
        assert await page.js("window.vectors") == []
        assert not page.complaints
