"""Let the local engine stand in for streams: `pytest --by-local-engine tests/spark_analytics/stream/test_….py`.

Both agree by definition then, so what is left of a test is what it expects of the audit itself: counts, names of
claims, what a late file changes. An expectation that is out of date shows so in seconds a file instead of minutes, and
no Java is started. It proves nothing of the stream: what a test expects of its batches, its state or its errors fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

OF_STREAMS = ("full", "rebuilt")
"""What a stream says of a run where it cannot go on from the batch before: the local engine reads all each time."""


def run_stream(
    spark: None, paths: Sequence[str], out: str, *, as_of: Callable[[], int], **of_streams: object
) -> dict[str, Any]:
    """Audit all that lies there, as a stream that has taken its batches."""
    from router.audit import engine
    from router.audit.listing import list_logs

    found = engine.audit(list_logs(map(Path, paths)), engine.AuditSpan(as_of()), out=Path(out))
    return found | {"run": {name: value for name, value in found["run"].items() if name not in OF_STREAMS}}


class LocalStream:
    """A plugin of pytest: replaces `run_stream` before the tests import it, and starts no session of Spark."""

    def pytest_configure(self) -> None:
        from spark_analytics import streaming
        from spark_analytics.stream import run

        streaming.run_stream = run.run_stream = run_stream  # type: ignore[assignment, attr-defined]

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> object:
        """Return something if the fixture has its value by now."""
        if fixturedef.argname != "spark":
            return None
        fixturedef.cached_result = None, None, None  # its value; no parameter; no error
        return self


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "let the local engine stand in for streams: which expectations are out of date, in seconds"
    parser.addoption("--by-local-engine", action="store_true", help=said)


def stand_in(config: pytest.Config) -> None:
    """Register the plugin where the option asks for it."""
    if config.getoption("--by-local-engine"):
        config.pluginmanager.register(LocalStream())
