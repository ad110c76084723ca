"""One browser for all tests in a page, where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chrome import MISSING, browser, running
from site_of_pages import served


@pytest.fixture(scope="session")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the DevTools URL of the one browser."""
    if browser() is None:
        pytest.skip(MISSING)
    with running(tmp_path_factory.mktemp("chrome")) as url:
        yield url


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """Return the port of the pages."""
    with served() as site:
        yield site.server_port
