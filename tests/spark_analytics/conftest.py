"""The option `--by-local-engine`: the tests of streams without Spark, see `rigs.local_stream`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "let the local engine stand in for streams: which expectations are out of date, in seconds"
    parser.addoption("--by-local-engine", action="store_true", help=said)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--by-local-engine"):
        from rigs.local_stream import LocalStream

        config.pluginmanager.register(LocalStream())
